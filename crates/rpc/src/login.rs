//! What a client can prove, and how it does: its end of a connection's SASL exchange.

use crate::call_error::CallError;
use crate::inward::{Inward, take_frame};
use crate::refusal;
use crate::request_header::request_header;
use crate::seal::{End, Seal};
use bytes::{Bytes, BytesMut};
use hdfs::call_id;
use hdfs::exception::AUTHORIZATION;
use hdfs::frame::{self, Answer};
use hdfs::opening::{Auth, Opening};
use hdfs::proto::{RpcSaslProto, RpcStatusProto};
use prost::Message;
use security::sasl::digest::{NONCE_LEN, Protection, Qop};
use security::sasl::rpc::{
    Asking, Client, Credentials, Initiating, Initiator, KerberosCredentials, Sealing, TokenCredentials,
};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

/// Longest message of a server's end. Hadoop's are a few hundred bytes; what its library says may be longer.
const FRAME_LEN_MAX: u32 = 96 << 10;
const READ_LEN: usize = 4 << 10;

/// What a client can prove. Without one it only says who it is.
#[derive(Clone, Debug)]
pub struct Login {
    /// The best first: the first one is used that is for the server.
    pub tokens: Vec<LoginToken>,
    pub kerberos: Option<Kerberos>,
    /// How what follows may be protected, the best first.
    pub qops: Vec<Qop>,
    /// Whether to go on where the server asks for no proof: it may be anybody.
    pub simple: bool,
    /// In whose name to call, if the ticket's user may act for others there.
    pub acting_as: Option<String>,
    /// What to say where a server asks for a proof and there is none that counts: why that is, if it is known.
    pub lacking: Option<String>,
}

/// A delegation token.
#[derive(Clone)]
pub struct LoginToken {
    pub identifier: Bytes,
    pub password: Bytes,
    /// The servers it is for, host:port. Empty: all that this client calls.
    pub addrs: Vec<String>,
}

impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoginToken({} bytes for {:?})", self.identifier.len(), self.addrs)
    }
}

/// A ticket.
#[derive(Clone, Debug)]
pub struct Kerberos {
    pub initiator: Arc<dyn Initiator>,
    /// The servers' service, as `nn`; of several all are accepted.
    pub services: Vec<String>,
    /// Their host, if it is not that of the address.
    pub host: Option<String>,
}

/// A connection whose server knows who calls.
#[derive(Debug)]
pub(crate) struct LoggedIn {
    /// Whether the server goes by what the context says.
    pub(crate) is_simple: bool,
    /// By a ticket, whose user may act for others; a token is its owner's.
    pub(crate) is_by_ticket: bool,
    pub(crate) seal: Option<Seal>,
    /// What came behind the exchange already.
    pub(crate) early: BytesMut,
}

impl Login {
    /// `peer`: what the address was found to be, as tokens name servers.
    fn credentials(&self, addr: &str, peer: &str) -> Credentials {
        let is_for =
            |token: &&LoginToken| token.addrs.is_empty() || token.addrs.iter().any(|of| of == addr || of == peer);
        let token = self.tokens.iter().find(is_for).map(|token| TokenCredentials {
            identifier: token.identifier.clone(),
            password: token.password.clone(),
            protection: Protection::of(&self.qops),
        });
        let kerberos = self.kerberos.as_ref().map(|kerberos| {
            let host = kerberos.host.as_deref().unwrap_or_else(|| host_of(addr)).to_ascii_lowercase();
            let servers = kerberos.services.iter().map(|service| (service.clone(), host.clone())).collect();
            KerberosCredentials { servers, qops: self.qops.clone() }
        });
        Credentials { token, kerberos, simple: self.simple }
    }

    fn not_proven(&self, error: &dyn fmt::Display) -> CallError {
        match &self.lacking {
            Some(why) => failed(format_args!("{error}; {why}")),
            None => failed(error),
        }
    }

    /// Opens a connection, and carries the exchange to its end.
    pub(crate) async fn open(
        &self,
        addr: &str,
        peer: &str,
        inward: &mut Inward<impl tokio::io::AsyncRead + Unpin>,
        outward: &mut (impl AsyncWrite + Unpin),
    ) -> Result<LoggedIn, CallError> {
        let mut nonce = [0; NONCE_LEN];
        ::io::random::fill(&mut nonce);
        let (mut machine, first) = Client::new(self.credentials(addr, peer), nonce);
        let mut bytes = BytesMut::from(&Opening::encode(Auth::Sasl)[..]);
        put(&first, &mut bytes);
        let mut exchange = Exchange { kerberos: self.kerberos.clone(), qops: self.qops.clone(), context: None };
        let (mut buffer, mut is_by_ticket) = (BytesMut::new(), false);
        loop {
            outward.write_all(&bytes).await.map_err(CallError::Connect)?;
            outward.flush().await.map_err(CallError::Connect)?;
            bytes.clear();
            let said = answer(inward, &mut buffer).await?;
            let mut asking = machine.on_message(&said).map_err(|error| self.not_proven(&error))?;
            while let Asking::Gss { server, token } = asking {
                is_by_ticket = true;
                let outcome = exchange.step(server, token).await.map_err(failed)?;
                asking = machine.on_gss(outcome).map_err(failed)?;
            }
            match asking {
                Asking::Send(message) => put(&message, &mut bytes),
                Asking::Simple { send } => {
                    send.iter().for_each(|message| put(message, &mut bytes));
                    outward.write_all(&bytes).await.map_err(CallError::Connect)?;
                    return Ok(LoggedIn { is_simple: true, is_by_ticket: false, seal: None, early: buffer });
                }
                Asking::Done { sealing } => {
                    let seal = match sealing {
                        Sealing::Plain => None,
                        Sealing::Digest(layer) => Some(Seal::new(End::Client, layer)),
                        Sealing::Library(_) => {
                            let context = exchange.context.take().expect("its last step ended the exchange");
                            Some(Seal::new(End::Client, context))
                        }
                    };
                    return Ok(LoggedIn { is_simple: false, is_by_ticket, seal, early: buffer });
                }
                Asking::Gss { .. } => unreachable!("all steps were made"),
            }
        }
    }
}

/// Kerberos' library in one connection.
struct Exchange {
    kerberos: Option<Kerberos>,
    qops: Vec<Qop>,
    context: Option<Box<dyn Initiating>>,
}

impl Exchange {
    /// On a thread of its own: it may ask a KDC.
    async fn step(
        &mut self,
        server: (String, String),
        token: Option<Bytes>,
    ) -> Result<security::sasl::rpc::ClientGss, String> {
        let Some(Kerberos { initiator, .. }) = self.kerberos.clone() else { return Err("there is no ticket".into()) };
        let (context, qops) = (self.context.take(), self.qops.clone());
        let (sender, receiver) = oneshot::channel();
        let step = move || {
            let stepped = match context {
                Some(context) => Ok(context),
                None => initiator.begin(&server, &qops),
            };
            let stepped = stepped.and_then(|mut context| {
                let outcome = context.step(token.as_deref())?;
                Ok((context, outcome))
            });
            let _ = sender.send(stepped);
        };
        ::io::task::thread("kerberos", step).map_err(|error| error.to_string())?;
        let (context, outcome) = receiver.await.map_err(|_dropped| "its library failed".to_owned())??;
        self.context = Some(context);
        Ok(outcome)
    }
}

fn host_of(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    // A key is for a name of a host, and this address has but one.
    if ip.is_ok_and(|ip| ip.is_loopback()) { "localhost" } else { host }
}

fn put(message: &RpcSaslProto, out: &mut BytesMut) {
    frame::put_frame(&[&request_header(call_id::SASL, &Bytes::new(), -1), message], out);
}

/// What the server says next.
async fn answer(
    inward: &mut Inward<impl tokio::io::AsyncRead + Unpin>,
    buffer: &mut BytesMut,
) -> Result<RpcSaslProto, CallError> {
    let unreadable = |error: &dyn fmt::Display| CallError::Decode(error.to_string());
    loop {
        if let Some(len) = frame::length(buffer, FRAME_LEN_MAX).map_err(|error| unreadable(&error))?
            && buffer.len() >= frame::LENGTH_LEN + len
        {
            let answer = Answer::decode(take_frame(buffer, len)).map_err(|error| unreadable(&error))?;
            if answer.header.status() != RpcStatusProto::Success {
                return Err(refusal::with_message(&answer, &refusal::message(&answer)));
            }
            return RpcSaslProto::decode(answer.response).map_err(|error| unreadable(&error));
        }
        if inward.read(buffer, READ_LEN).await.map_err(CallError::Connect)? == 0 {
            return Err(CallError::Connect(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// What this client refuses, or cannot prove: nobody is to try again, here or elsewhere.
fn failed(reason: impl fmt::Display) -> CallError {
    CallError::Remote { class: AUTHORIZATION.to_owned(), message: format!("cannot log in: {reason}"), detail: None }
}
