//! The handshake of a data connection, before its first operation.
//!
//! ```text
//! client ── DEADBEEF, {} ────────────────────────────▶ server      each message behind its length as a varint
//!        ◀── {challenge} ──────────────────────────────            of DIGEST-MD5
//!        ── {response, ciphers the client has} ──────▶             the user: a block token, or an encryption key
//!        ◀── {rspauth, the chosen cipher and its keys} ─
//!        ══ a Channel, in which operations follow ══
//! ```
//!
//! Promise: a machine takes bytes in any cuts, holds at most one message, and its last word is either a [`Channel`] or
//! a reason. With authentication alone the channel is plain, and `sendfile` goes on as before. AES's keys are wrapped
//! by DIGEST-MD5's layer: they are as secret as its cipher keeps them, which is Hadoop's choice and not ours to better.

mod aes;
mod channel;
mod client;
#[cfg(test)]
mod golden;
mod message;
mod progress;
mod secrets;
mod server;
#[cfg(test)]
mod tests;

pub use aes::{KeyBits, Stream};
pub use channel::{Channel, ChannelError, FRAME_LEN_MAX, Receiving, SEND_LEN, Sending};
pub use client::Client;
pub use message::{HandshakeError, MAGIC};
pub use progress::Progress;
pub use secrets::{Claim, Peer, SecretRefusal, Secrets};
pub use server::{Established, RANDOM_LEN, Server, Settings};
