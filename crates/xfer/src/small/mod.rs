//! Small blocks in one request (op 200): header, checksums and bytes at once, and one answer.
//!
//! ```text
//! writer                    first node                                     other nodes
//! Caller ──[requests]─────▶ Server ──▶ Fanout ─┬─ its own replica
//!        ◀─[answers, by ──                     └─ Caller ──[requests]────▶ Server ──▶ Fanout (of one)
//! Verdict   their numbers]
//! ```
//!
//! Promise: a request whose header is not admitted costs no memory; its bytes are passed over. An answer names exactly
//! those nodes that have put the block, and without a refusal they are a majority. A request is sent once. If its
//! connection broke, nobody knows what became of it; nodes take the same block twice, so sending it again does no harm.

pub mod batch;
mod caller;
mod fanout;
mod node;
mod request;
mod server;
pub mod stock;
mod verdict;

pub use caller::{Caller, CallerLimits, OutgoingRequest};
pub use fanout::{Fanout, LATE_MAX};
pub use node::Node;
pub use request::{Checked, Request};
pub use server::{Server, ServerError, ServerLimits};
pub use stock::Stock;
pub use verdict::Verdict;

/// Blocks that a writer tries before it streams.
pub const ATTEMPT_COUNT_MAX: usize = 3;
