//! Idle connections to datanodes, kept for a moment: most programs that read a little here will read a little there.

use crate::datanode::Link;
use io::Clock;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `dfs.client.socketcache.expiryMsec`: a server closes idle connections at 4 s, so we stop using them at 3.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// `dfs.client.socketcache.capacity`.
const COUNT_MAX: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    clock: io::SystemClock,
    /// Oldest first.
    idle: Mutex<Vec<(Duration, Link)>>,
}

impl Sockets {
    /// The youngest idle connection to `addr` that still stands.
    pub(crate) fn take(&self, addr: &str) -> Option<Link> {
        let now = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, _)| now.saturating_sub(*since) < IDLE_MAX);
        while let Some(place) = idle.iter().rposition(|(_, link)| link.addr == addr) {
            let (_, link) = idle.remove(place);
            if link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    pub(crate) fn put(&self, link: Link) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= COUNT_MAX {
            idle.remove(0);
        }
        idle.push((self.clock.monotonic(), link));
    }
}
