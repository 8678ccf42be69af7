//! How a datanode comes to a certificate: the messages of [`JOIN_PROTOCOL`], on metad's RPC port inside TLS, and of
//! renewals, which belong to the protocol of nodes.

pub use crate::proto::{JoinRequest, RenewRequest, SignedResponse};

/// The caller has proven nothing: its token says that it may.
pub const JOIN_PROTOCOL: &str = "org.levada.JoinProtocol";
pub const JOIN_VERSION: u64 = 1;

pub const JOIN: &str = "join";
pub const RENEW_CERTIFICATE: &str = "renewCertificate";
