//! Sockets to datanodes that are opened before anybody has something to ask: a connection far away takes a round trip,
//! in which something else can travel.
//!
//! ```text
//!   a file will be read ──▶ the node that served its data set last ──▶ connecting … ──┬─▶ who dials this node
//!   a file is open      ──▶ the node that will be asked            ──▶ connecting … ──┘
//!                                                       nobody does within some seconds ──▶ closed
//! ```
//!
//! Promise: no more than [`COUNT_MAX`] are kept, and none longer than [`KEPT_MAX`]. Nothing was sent on them.

use crate::socket::Socket;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use types::record;

/// As many as one long read takes: new connections bring 3.7 MB in their first round trip together, and as much again
/// twice in the second.
pub(crate) const COUNT_MAX: usize = 256;
/// A server closes what is idle at 4 s, as in `sockets`.
pub(crate) const KEPT_MAX: Duration = Duration::from_secs(3);
/// As long as nothing says another: what the links have that people call fast.
pub(crate) const BYTES_PER_S: u64 = 125_000_000;
/// Of the address of a node: an address of IPv6 with its port has 47.
const ADDR_LEN_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Warm {
    /// Oldest first.
    sockets: Mutex<Vec<Coming>>,
}

/// A socket that is there, or on its way.
pub(crate) type Arrival = oneshot::Receiver<io::Result<Socket>>;

#[derive(Debug)]
struct Coming {
    since: Duration,
    addr: Arc<str>,
    socket: Arrival,
}

impl Warm {
    /// Where so many more to a node go that `count` of them are there. Each is to be connected, and sent.
    pub(crate) fn begin(
        &self,
        now: Duration,
        addr: &Arc<str>,
        count: usize,
    ) -> Vec<oneshot::Sender<io::Result<Socket>>> {
        let mut sockets = self.sockets();
        sockets.retain(|coming| is_fresh(now, coming));
        let known = sockets.iter().filter(|coming| coming.addr == *addr).count();
        let more = count.saturating_sub(known).min(COUNT_MAX.saturating_sub(sockets.len()));
        let begun = (0..more).map(|_| {
            let (sender, socket) = oneshot::channel();
            sockets.push(Coming { since: now, addr: Arc::clone(addr), socket });
            sender
        });
        begun.collect()
    }

    /// The oldest to this node. The one that was begun first is there first.
    pub(crate) fn take(&self, now: Duration, addr: &str) -> Option<Arrival> {
        let mut sockets = self.sockets();
        let place = sockets.iter().position(|coming| &*coming.addr == addr && is_fresh(now, coming))?;
        Some(sockets.remove(place).socket)
    }

    pub(crate) fn count(&self, now: Duration, addr: &str) -> usize {
        self.sockets().iter().filter(|coming| &*coming.addr == addr && is_fresh(now, coming)).count()
    }

    /// Closes those that nobody took for too long.
    pub(crate) fn trim(&self, now: Duration) {
        self.sockets().retain(|coming| is_fresh(now, coming));
    }

    pub(crate) fn clear(&self) {
        self.sockets().clear();
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Coming>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(now: Duration, coming: &Coming) -> bool {
    now.saturating_sub(coming.since) < KEPT_MAX
}

/// The datanode that a data set was read from last, and by how many connections. It is kept beside the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// `ip:port`.
    pub(crate) addr: String,
    pub(crate) count: u32,
}
record!(Reached { 0: addr, 1: count });

impl Reached {
    /// Longest content of a file with one.
    pub(crate) const LEN_MAX: usize = ADDR_LEN_MAX + 16;

    /// `None`: it is none, or names what is no address.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reached: Self = types::encoding::decode_known(bytes).ok()?;
        // By its number alone: a name would be asked for first, and may lead anywhere.
        let is_address = reached.addr.len() <= ADDR_LEN_MAX && reached.addr.parse::<std::net::SocketAddr>().is_ok();
        is_address.then_some(reached)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        types::encoding::encode(self, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_for_their_node_and_for_a_while() {
        let (warm, now) = (Warm::default(), Duration::from_secs(100));
        let node: Arc<str> = "10.0.0.1:9866".into();
        let begun = warm.begin(now, &node, 3);
        assert_eq!((begun.len(), warm.begin(now, &node, 4).len()), (3, 1), "as many as are missing");
        assert_eq!(warm.begin(now, &"10.0.0.2:9866".into(), 10 * COUNT_MAX).len(), COUNT_MAX - 4);
        assert!(warm.take(now, "10.0.0.3:9866").is_none());
        assert!(warm.take(now, &node).is_some());
        assert_eq!(warm.count(now, &node), 3);
        let late = now + KEPT_MAX;
        assert_eq!(warm.count(late, &node), 0);
        assert!(warm.take(late, &node).is_none());
        warm.trim(late);
        assert!(begun.iter().all(oneshot::Sender::is_closed));
    }

    #[test]
    fn only_an_address_is_connected_to() {
        let reached = |addr: &str| Reached { addr: addr.into(), count: 9 };
        let decoded = |addr: &str| Reached::decode(&reached(addr).encode());
        assert_eq!(decoded("10.0.0.1:9866"), Some(reached("10.0.0.1:9866")));
        assert_eq!(decoded("[fe80::1]:9866"), Some(reached("[fe80::1]:9866")));
        assert_eq!((decoded("host:9866"), decoded(""), Reached::decode(b"xyz")), (None, None, None));
    }
}
