//! Connections for small writes ([`wire::small`]): one to a datanode, shared by all who write small blocks there, and
//! kept.
//!
//! ```text
//! put ──▶ queue ──▶ one write of all that wait ──▶ ┐
//!                                                  │ datanode
//! put ◀── its answer, by number ◀── answers ◀───── ┘
//! ```
//!
//! Promise: a request is sent once. If its connection broke, nobody knows what became of it; datanodes take the same
//! block twice, so asking again does no harm.

mod link;
mod links;

pub use link::{SmallError, SmallLink};
pub use links::SmallLinks;

use ::io::socket::SocketOptions;
use std::time::Duration;

/// Limits of one user of small writes.
#[derive(Clone, Debug)]
pub struct SmallOptions {
    pub connect_time_max: Duration,
    /// From the request to its answer.
    pub answer_time_max: Duration,
    /// A connection without requests is closed after this: sooner than the datanode does, so that none is sent into a
    /// connection that is just being closed.
    pub idle_time_max: Duration,
    /// Requests not written yet; further ones wait.
    pub queue_count_max: usize,
    pub socket: SocketOptions,
}

impl Default for SmallOptions {
    fn default() -> Self {
        Self {
            connect_time_max: Duration::from_secs(5),
            answer_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(20),
            queue_count_max: 64,
            socket: SocketOptions::default(),
        }
    }
}
