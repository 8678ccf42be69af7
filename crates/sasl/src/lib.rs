//! A connection of data transfer behind its handshake ([`security::sasl::transfer`]).
//!
//! ```text
//!                  ┌─ Incoming: opens ──▶ bytes that somebody reads
//!   peer ◀═socket═▶│                                              whoever has the socket moves the bytes,
//!                  └─ Outgoing: seals ◀── bytes that somebody sends         as he does with any other
//! ```
//!
//! Both are pure: with authentication alone they change nothing, and `sendfile` goes on as before. Who cannot use them,
//! as he waits for a plain stream socket, has a task do it behind a local pair of sockets ([`Protected::pumped`]). That
//! costs copies, wake-ups and two more sockets: several times what AES costs.
//!
//! Promise: whoever reads sees bytes that were verified, in their order, and the end of the stream where the peer ended
//! it or broke a rule. A connection that waits holds 12 KiB at most; more is counted before it is taken.

mod accept;
mod connect;
mod error;
mod idle;
mod incoming;
mod outgoing;
mod protected;
mod pump;
mod room;
#[cfg(test)]
mod tests;
mod uncounted;

pub use accept::{Accepted, accept, is_handshake};
pub use connect::{HdfsSecret, Secret, connect, connect_to_hdfs};
pub use error::{Error, is_of_secret};
pub use idle::IDLE_AFTER;
pub use incoming::Incoming;
pub use outgoing::Outgoing;
pub use protected::Protected;
pub use uncounted::Uncounted;
