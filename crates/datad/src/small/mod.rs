//! Small blocks in one request (op 200): received once, sent to all others at the same time, put in one step.
//!
//! ```text
//!             ┌── committer: one append and one sync for all that wait ──▶ a disk
//! connection ─┤
//!             └── connections ──▶ the other nodes, each at once (no chain)
//!                  answers: all have it, or a majority and a short while has passed
//! ```
//!
//! Promise: an answer names who has put the block; who is named has it as durable as the node is set up, or on disk if
//! the request says so. A connection holds memory only for requests within the budget, and a request that is cut off
//! changes nothing.

mod committer;
mod connection;
mod request;
mod small_writes;

pub(crate) use connection::serve;
pub(crate) use small_writes::SmallWrites;
