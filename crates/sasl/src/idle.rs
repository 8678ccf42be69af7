//! What a connection on which nothing happens holds.

use std::time::Duration;

/// So many bytes are read, or sealed, at a time while few come, or none: an operation's request has some hundred. A
/// node has thousands of connections that wait for their next operation.
pub(crate) const IDLE_LEN: usize = 4 << 10;
/// So long after the last bytes that came memory is to go back. A guess: what comes one after the other comes faster.
pub const IDLE_AFTER: Duration = Duration::from_millis(100);
