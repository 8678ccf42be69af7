//! Whose service a client asks for, and how long its messages may be.

/// Random bytes of a nonce, ours or a client's.
pub const NONCE_LEN: usize = 24;
/// RFC 2831's limits, which JDK has as well.
pub const CHALLENGE_LEN_MAX: usize = 2048;
pub const RESPONSE_LEN_MAX: usize = 4096;

/// Whose service it is. Both ends must name the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub protocol: &'static str,
    pub server: &'static str,
    pub realm: &'static str,
    /// Whether Hadoop's clients name themselves once more, as whom they act as.
    pub names_authorization: bool,
}

impl Service {
    /// Tokens on RPC connections.
    pub const RPC: Self = Self { protocol: "", server: "default", realm: "default", names_authorization: false };
    /// Data transfer.
    pub const TRANSFER: Self = Self { protocol: "hdfs", server: "0", realm: "0", names_authorization: true };

    pub(super) fn uri(&self) -> String {
        format!("{}/{}", self.protocol, self.server)
    }
}
