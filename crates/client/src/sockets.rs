//! Idle connections to datanodes, kept for a moment: most programs that read a little here will read a little there.

use crate::datanode::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `dfs.client.socketcache.expiryMsec`: a server closes idle connections at 4 s, so we stop using them at 3.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// Sixteen times `dfs.client.socketcache.capacity`: what one long read from far away uses, and some of other nodes.
const COUNT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Oldest first.
    idle: Mutex<Vec<(Duration, Connection)>>,
}

impl Sockets {
    /// The youngest idle connection to `addr` that still stands.
    pub(crate) fn take(&self, now: Duration, addr: &str) -> Option<Connection> {
        let mut idle = self.idle();
        idle.retain(|(since, _)| now.saturating_sub(*since) < IDLE_MAX);
        while let Some(place) = idle.iter().rposition(|(_, connection)| &**connection.addr() == addr) {
            let (_, connection) = idle.remove(place);
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn put(&self, now: Duration, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() >= COUNT_MAX {
            idle.remove(0);
        }
        idle.push((now, connection));
        assert!(idle.len() <= COUNT_MAX, "{} idle connections are kept", idle.len());
    }

    /// Idle connections to `addr`.
    pub(crate) fn count(&self, now: Duration, addr: &str) -> usize {
        let is_to = |(since, connection): &&(Duration, Connection)| {
            now.saturating_sub(*since) < IDLE_MAX && &**connection.addr() == addr
        };
        self.idle().iter().filter(is_to).count()
    }

    pub(crate) fn clear(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Duration, Connection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
