//! Who is calling over an RPC connection: what client and server say before the connection's context.
//!
//! ```text
//! client                                                 server
//!   ── NEGOTIATE ──────────────────────────────────────▶
//!   ◀── NEGOTIATE: what may be chosen, the best first ──   or SUCCESS: go on as SIMPLE
//!   ── INITIATE: the chosen one, its first token ──────▶   for SIMPLE that is all
//!   ◀── CHALLENGE ──┐
//!   ── RESPONSE ────┴ as often as Kerberos needs ──────▶
//!   ◀── SUCCESS, the last token ────────────────────────
//!   ══ WRAP both ways, if integrity or privacy was agreed on ══
//! ```
//!
//! Both machines end with the exchange: what is wrapped from then on goes through [`wrap`] and [`unwrap`]. Kerberos'
//! own tokens are made by a library outside; a machine hands them over and takes them back.

mod client;
mod gss;
mod server;
mod wrap;

pub use client::{Asking, Client, ClientError, Credentials, TokenCredentials};
pub use gss::{GssLayerChoice, GssLayerError, GssLayerOffer};
pub use server::{Caller, GssOutcome, Offers, Server, Step};
pub use wrap::{Protector, WrapError, unwrap, wrap};

use hdfs::proto::rpc_sasl_proto::SaslAuth;
use hdfs::proto::{RpcSaslProto, SaslState};

/// The methods by their names on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Simple,
    Kerberos,
    Token,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Kerberos => "KERBEROS",
            Self::Token => "TOKEN",
        }
    }

    fn mechanism(self) -> &'static str {
        match self {
            Self::Simple => "",
            Self::Kerberos => "GSSAPI",
            Self::Token => "DIGEST-MD5",
        }
    }

    /// A client skips what has another mechanism.
    fn of(auth: &SaslAuth) -> Option<Self> {
        let all = [Self::Simple, Self::Kerberos, Self::Token].into_iter();
        all.into_iter().find(|method| method.name() == auth.method && method.mechanism() == auth.mechanism)
    }

    fn auth(self, protocol: &str, server: &str) -> SaslAuth {
        SaslAuth {
            method: self.name().to_owned(),
            mechanism: self.mechanism().to_owned(),
            protocol: Some(protocol.to_owned()),
            server_id: Some(server.to_owned()),
            challenge: None,
        }
    }
}

fn message(state: SaslState, token: Option<Vec<u8>>) -> RpcSaslProto {
    RpcSaslProto { version: None, state: state.into(), token: token.map(Into::into), auths: Vec::new() }
}
