//! The methods by which a caller may prove who it is.

use hdfs::proto::rpc_sasl_proto::SaslAuth;

/// The methods by their names on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Simple,
    Kerberos,
    Token,
    /// By a certificate of a node, below RPC: no exchange offers it.
    Certificate,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Kerberos => "KERBEROS",
            Self::Token => "TOKEN",
            Self::Certificate => "CERTIFICATE",
        }
    }

    pub(crate) fn mechanism(self) -> &'static str {
        match self {
            Self::Simple | Self::Certificate => "",
            Self::Kerberos => "GSSAPI",
            Self::Token => "DIGEST-MD5",
        }
    }

    /// A client skips what has another mechanism.
    pub(crate) fn of(auth: &SaslAuth) -> Option<Self> {
        let all = [Self::Simple, Self::Kerberos, Self::Token].into_iter();
        all.into_iter().find(|method| method.name() == auth.method && method.mechanism() == auth.mechanism)
    }

    pub(crate) fn auth(self, protocol: &str, server: &str) -> SaslAuth {
        SaslAuth {
            method: self.name().to_owned(),
            mechanism: self.mechanism().to_owned(),
            protocol: Some(protocol.to_owned()),
            server_id: Some(server.to_owned()),
            challenge: None,
        }
    }
}
