//! Says who calls: a server of Hadoop RPC that takes tickets, and to every client answers one path, owned by the
//! client's Kerberos name. To try out a KDC, a keytab and a client without a store:
//!
//!     cargo run -p gss --example whoami -- nn/localhost@EXAMPLE.COM nn.keytab privacy,integrity
//!     hdfs dfs -stat %u hdfs://localhost:PORT/
//!
//! It prints its address, and ends with its input.

use bytes::Bytes;
use hdfs::proto::{FsPermissionProto, GetFileInfoResponseProto, HdfsFileStatusProto};
use prost::Message;
use rpc::{Authentication, Call, Exception, Server, ServerOptions, Service};
use security::kerberos_name::KerberosName;
use security::sasl::digest::Qop;
use security::sasl::rpc::{KerberosOffer, Offers};
use std::error::Error;
use std::io::Read;
use std::sync::Arc;

struct WhoAmI;

impl Service for WhoAmI {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        if call.method != "getFileInfo" {
            return Err(call.no_such_method());
        }
        let status = HdfsFileStatusProto {
            file_type: 1,
            permission: FsPermissionProto { perm: 0o755 },
            owner: call.user.effective.clone(),
            group: call.user.real.clone().unwrap_or_default(),
            flags: Some(0),
            ..HdfsFileStatusProto::default()
        };
        Ok(GetFileInfoResponseProto { fs: Some(status) }.encode_to_vec().into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [principal, keytab, words] = &arguments[..] else {
        return Err("give a principal with its host, a keytab, and protections with commas between them".into());
    };
    let principal = KerberosName::parse(principal)?;
    let qops = words.split(',').map(Qop::parse_setting).collect::<Option<Vec<Qop>>>().ok_or("no such protection")?;
    let host = principal.host.clone().ok_or("a principal with its host")?;
    let offer = KerberosOffer { service: principal.service.clone(), host, qops };
    let settings = gss::AcceptorSettings { principal, keytab: keytab.into(), replay_cache: None };
    let acceptor = gss::Acceptor::open(&settings)?;
    let offers = Offers { token: None, kerberos: Some(offer), simple: false };
    let authentication = Authentication { offers, acceptor: Some(Arc::new(acceptor)) };
    let options = ServerOptions { authentication, ..ServerOptions::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = runtime.block_on(Server::bind("127.0.0.1:0", options, Arc::new(WhoAmI)))?;
    println!("{}", server.local_addr());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
