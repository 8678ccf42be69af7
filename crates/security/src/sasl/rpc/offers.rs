//! What a server offers: by which methods callers may prove who they are.

use crate::method::Method;
use crate::sasl::digest::{Protection, Qop, Service};
use hdfs::exception::{self, Exception};
use hdfs::proto::rpc_sasl_proto::SaslAuth;

/// What a server accepts on one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Tokens, where the protocol has some, and how what follows is protected.
    pub token: Option<Protection>,
    pub kerberos: Option<KerberosOffer>,
    /// Whoever says who he is.
    pub simple: bool,
}

/// The server's Kerberos name without its realm, and how what follows is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosOffer {
    /// As `nn`.
    pub service: String,
    /// As `host.example.com`.
    pub host: String,
    pub qops: Vec<Qop>,
}

impl Offers {
    /// As refusals name them.
    fn names(&self) -> String {
        let all = [
            (self.token.is_some(), Method::Token),
            (self.kerberos.is_some(), Method::Kerberos),
            (self.simple, Method::Simple),
        ];
        let names: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, method)| method.name()).collect();
        names.join(", ")
    }

    /// Whether there is nothing to prove.
    pub fn is_simple_only(&self) -> bool {
        self.simple && self.token.is_none() && self.kerberos.is_none()
    }

    /// What a connection is told that opens without SASL where that is not enough.
    pub fn refuse_simple(&self) -> Option<Exception> {
        (!self.simple).then(|| self.refuse(Method::Simple.name()))
    }

    /// What a client is told that chose a `method` which is not offered.
    pub(super) fn refuse(&self, method: &str) -> Exception {
        let is_known = [Method::Simple, Method::Kerberos, Method::Token].iter().any(|known| known.name() == method);
        let method = if is_known { method.to_owned() } else { types::excerpt(method) };
        let text = format!("{method} authentication is not enabled.  Available:[{}]", self.names());
        Exception::unauthorized(exception::ACCESS_CONTROL, text)
    }

    /// In order of preference; tokens come first.
    pub(super) fn auths(&self) -> Vec<SaslAuth> {
        let token = self.token.iter().map(|_| Method::Token.auth(Service::RPC.protocol, Service::RPC.server));
        let kerberos = self.kerberos.iter().map(|offer| Method::Kerberos.auth(&offer.service, &offer.host));
        let simple = self.simple.then(|| SaslAuth { protocol: None, server_id: None, ..Method::Simple.auth("", "") });
        token.chain(kerberos).chain(simple).collect()
    }
}
