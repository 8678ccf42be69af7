//! What a node brings over all connections of one call: a connection that is silent while the others fill the link
//! waits for the link, and not for the node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A full link brings this in less time than a connection may be silent: one of 1 Mbit/s in two seconds. One connection
/// that is as good as silent does not.
const BUSY_LEN: u64 = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// How many bytes came.
    len: AtomicU64,
    /// When the last [`BUSY_LEN`] of them were full, in milliseconds. 0: at no time yet.
    busy_ms: AtomicU64,
}

impl Traffic {
    pub(super) fn add(&self, len: usize, now: Duration) {
        let before = self.len.fetch_add(len as u64, Ordering::Relaxed);
        if (before + len as u64) / BUSY_LEN > before / BUSY_LEN {
            self.busy_ms.store(now.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Whether so long ago, or later, as much had come as over a link that is full.
    pub(super) fn is_busy(&self, now: Duration, time: Duration) -> bool {
        let busy_ms = self.busy_ms.load(Ordering::Relaxed);
        busy_ms > 0 && Duration::from_millis(busy_ms) + time >= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_busy_for_a_while_after_much_came() {
        let (traffic, at) = (Traffic::default(), Duration::from_secs);
        traffic.add(BUSY_LEN as usize - 1, at(1));
        assert!(!traffic.is_busy(at(1), at(10)));
        traffic.add(1, at(2));
        traffic.add(1, at(9));
        assert!(traffic.is_busy(at(5), at(3)) && !traffic.is_busy(at(6), at(3)));
    }
}
