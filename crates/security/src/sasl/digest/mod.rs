//! DIGEST-MD5 (RFC 2831), as JDK speaks it: how whoever holds a token proves so.
//!
//! ```text
//! server                                              client
//! Challenge ── realm, nonce, qop, ciphers ──▶         Client::respond
//!   .read   ◀── user, cnonce, qop, cipher, proof ──     ▼
//! Response, whose user's password is looked up        Responded
//!   .verify ── rspauth: the server knows it too ──▶     .finish
//!           ══ Layer: what both ends send from now on ══
//! ```
//!
//! Each state is taken by the step that follows, so a nonce serves once and no step can be left out. The mechanism is
//! old (RFC 6331 says why nobody should design with it), and the only one that stock clients have for tokens. Its
//! weaknesses matter little here: passwords are MACs of 256 bits, which nobody guesses. Its ciphers are weak; who wants
//! privacy takes AES on data transfer, and TLS.
//!
//! Names and passwords must be ASCII, as base64 is: so RFC 2831's two ways to hash others do not arise.

mod cipher;
mod client;
mod directives;
#[cfg(test)]
mod golden;
mod layer;
mod proof;
mod protection;
mod server;

pub use client::{Client, Responded};
pub use layer::{Layer, LayerError, OVERHEAD_MAX, Opener, Sealer};
pub use protection::{Cipher, Protection, Qop};
pub use server::{Accepted, Challenge, Response};

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

    fn uri(&self) -> String {
        format!("{}/{}", self.protocol, self.server)
    }
}

/// Why an exchange ends without success. Whatever it is, the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("DIGEST-MD5: {what} of {len} bytes, at most {max} are allowed")]
    TooLong { what: &'static str, len: usize, max: usize },
    #[error("DIGEST-MD5: malformed directive at byte {at}")]
    Malformed { at: usize },
    #[error("DIGEST-MD5: directive {name} is missing")]
    Missing { name: &'static str },
    #[error("DIGEST-MD5: directive {name} twice")]
    Twice { name: String },
    #[error("DIGEST-MD5: {name} is not what was offered, or what this side supports")]
    Unsupported { name: &'static str },
    #[error("DIGEST-MD5: digest response format violation. Mismatched response.")]
    Proof,
}
