//! A connection of data transfer behind its handshake ([`security::sasl::transfer`]).
//!
//! ```text
//!                           handshake, then either
//!   peer ══ socket ══▶  authentication alone: the socket itself, and sendfile goes on as before
//!                       else: ┌─ pump: opens ─▶ one end of a local pair of sockets ──▶ operations
//!   peer ◀═ socket ═════════  └─ pump: seals ◀──────────────────────────────────────
//! ```
//!
//! Operations see a plain stream socket in both cases, and know nothing of protection: what waits, polls or sends files
//! on it does so as on any other. The price is one more pass of the bytes through the kernel, which is small beside
//! sealing them.
//!
//! Promise: whoever reads from the local end sees bytes that were verified, in their order, and the end of the stream
//! where the peer ended it or broke a rule. A pump holds a few pieces; more is counted before it is taken.

mod accept;
mod connect;
mod error;
mod opening;
mod pump;
mod room;
mod uncounted;

pub use accept::{Accepted, accept, is_handshake};
pub use connect::{Secret, connect};
pub use error::{Error, is_of_secret};
pub use uncounted::Uncounted;
