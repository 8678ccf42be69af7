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
mod error;
#[cfg(test)]
mod golden;
mod layer;
mod mac;
mod md5;
mod proof;
mod protection;
mod server;
mod service;
mod triple_des;

pub use client::{Client, Responded};
pub use error::DigestError;
pub use layer::{Layer, LayerError, OVERHEAD_MAX, Opener, Sealer};
pub(in crate::sasl) use mac::LANES;
pub use protection::{Cipher, Protection, Qop};
pub use server::{Accepted, Challenge, Response};
pub use service::{CHALLENGE_LEN_MAX, NONCE_LEN, RESPONSE_LEN_MAX, Service};
