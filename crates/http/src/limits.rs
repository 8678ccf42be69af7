//! What a client may take.

use std::time::Duration;

/// What strangers may take. Every figure is a guess.
#[derive(Clone, Debug)]
pub struct Limits {
    /// When there are more, the one whose client was waited for longest is closed.
    pub connection_count_max: usize,
    /// Longest head of a request, and what is buffered of an answer. Browsers send one or two kilobytes.
    pub head_len_max: usize,
    /// For a request's head to come, from the connection's beginning or from the answer before.
    pub head_time_max: Duration,
    /// For a client to take anything of an answer that waits for it.
    pub stall_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (head_time_max, stall_time_max) = (Duration::from_secs(20), Duration::from_secs(30));
        Self { connection_count_max: 256, head_len_max: 16 << 10, head_time_max, stall_time_max }
    }
}
