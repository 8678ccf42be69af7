//! Which addresses some named servers call from, so that a port can tell them from strangers.
//!
//! Promise: a name's addresses are all that it resolves to. They are looked up again when a caller has none of them, at
//! most once a second, and while an answer is older than a minute; until a new answer comes the last one holds. A name
//! server that hangs delays strangers alone. All loopback addresses are one: which of them a local connection comes
//! from is the kernel's choice.
//!
//! An address is no proof: whoever runs a program on such a machine, or can send in its name, is taken for the server.

use ::io::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;

/// Between two lookups for the sake of strangers. A guess.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A caller from a new address of a known name waits so long for the name server.
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// An answer is renewed after so long; until then a machine that got the address of a server may be taken for it.
const RENEW_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Origins {
    clock: SystemClock,
    state: Arc<Mutex<State>>,
    /// Held while names are looked up for a stranger, so that many at once cost one lookup.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    resolved: BTreeMap<String, Resolved>,
    /// Lookups under way: one a name, however long it takes.
    under_way: BTreeSet<String>,
    /// When the last lookup for a stranger ended.
    looked: Option<Duration>,
}

#[derive(Debug)]
struct Resolved {
    addrs: BTreeSet<IpAddr>,
    at: Duration,
}

impl Default for Origins {
    fn default() -> Self {
        Self { clock: SystemClock::new(), state: Arc::default(), looking: tokio::sync::Mutex::default() }
    }
}

impl Origins {
    /// Whether one of `servers` (`host:port`, `host` or an address each) is reached at `peer`.
    pub async fn include(&self, servers: &BTreeSet<String>, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        if self.are_known(servers, peer) {
            return true;
        }
        let _looking = self.looking.lock().await;
        let now = self.clock.monotonic();
        let is_due = state(&self.state).looked.is_none_or(|looked| now >= looked + LOOK_PAUSE);
        if is_due {
            let lookups: Vec<_> = servers.iter().filter_map(|server| self.look_up(server)).collect();
            let all = async {
                for lookup in lookups {
                    // It ends without an answer when the runtime does.
                    let _ = lookup.await;
                }
            };
            // Those that take longer go on, and are known to the next caller.
            let _in_time = tokio::time::timeout(LOOK_WAIT, all).await;
            state(&self.state).looked = Some(self.clock.monotonic());
        }
        self.are_known(servers, peer)
    }

    fn are_known(&self, servers: &BTreeSet<String>, peer: IpAddr) -> bool {
        let now = self.clock.monotonic();
        let mut old = Vec::new();
        let mut found = false;
        {
            let mut state = state(&self.state);
            state.resolved.retain(|server, _| servers.contains(server));
            for server in servers {
                found |= match (literal(server), state.resolved.get(server)) {
                    (Some(addr), _) => is_same(addr, peer),
                    (None, Some(Resolved { addrs, at })) => {
                        if now >= *at + RENEW_AFTER {
                            old.push(server);
                        }
                        addrs.iter().any(|addr| is_same(*addr, peer))
                    }
                    (None, None) => false,
                };
            }
        }
        old.into_iter().for_each(|server| drop(self.look_up(server)));
        found
    }

    /// Begins to look a name up. `None`: it is no name, or that is under way.
    fn look_up(&self, server: &str) -> Option<::io::task::Task<()>> {
        if literal(server).is_some() || !state(&self.state).under_way.insert(server.to_owned()) {
            return None;
        }
        let (shared, clock, server) = (Arc::clone(&self.state), self.clock, server.to_owned());
        Some(::io::task::spawn("origins", async move {
            let found: std::io::Result<Vec<_>> = lookup_host((host(&server), 0)).await.map(Iterator::collect);
            let mut state = state(&shared);
            state.under_way.remove(&server);
            match found {
                Ok(addrs) => {
                    let addrs = addrs.into_iter().map(|addr| addr.ip().to_canonical()).collect();
                    state.resolved.insert(server, Resolved { addrs, at: clock.monotonic() });
                }
                Err(error) => tracing::warn!(server, %error, "the name of a server cannot be resolved"),
            }
        }))
    }
}

fn state(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_same(addr: IpAddr, peer: IpAddr) -> bool {
    addr == peer || (addr.is_loopback() && peer.is_loopback())
}

/// What needs no name server.
fn literal(server: &str) -> Option<IpAddr> {
    let addr = server.parse::<SocketAddr>().map(|addr| addr.ip());
    addr.or_else(|_| host(server).parse()).ok().map(|addr: IpAddr| addr.to_canonical())
}

fn host(server: &str) -> &str {
    match server.rsplit_once(':') {
        // More than one colon: an IPv6 address without a port.
        Some((host, port)) if !host.contains(':') && port.parse::<u16>().is_ok() => host,
        _ => server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(servers: &[&str], peer: &str) -> bool {
        let servers = servers.iter().map(|server| (*server).to_owned()).collect();
        Origins::default().include(&servers, peer.parse().unwrap()).await
    }

    #[tokio::test]
    async fn a_server_is_known_by_all_its_addresses() {
        assert!(check(&["10.0.0.1:8020", "10.0.0.2:8020"], "10.0.0.2").await);
        assert!(check(&["10.0.0.1:8020"], "::ffff:10.0.0.1").await);
        assert!(check(&["[fe80::1]:8020", "fe80::2"], "fe80::2").await);
        assert!(!check(&["10.0.0.1:8020"], "10.0.0.3").await);
        assert!(!check(&["10.0.0.1:8020"], "127.0.0.1").await, "a program beside a stranger");
        assert!(!check(&[], "127.0.0.1").await);
        assert!(check(&["localhost:8020"], "127.0.0.1").await, "a name is looked up");
        assert!(check(&["127.0.1.1:8020"], "127.0.0.1").await, "any loopback address");
        assert!(!check(&["no-such-name.invalid:8020"], "10.0.0.3").await);
    }

    /// Servers that are not listed any more are forgotten, and new ones are looked up.
    #[tokio::test]
    async fn the_list_may_change() {
        let (origins, peer) = (Origins::default(), IpAddr::from([127, 0, 0, 1]));
        let list = |servers: &[&str]| servers.iter().map(|server| (*server).to_owned()).collect::<BTreeSet<_>>();
        assert!(origins.include(&list(&["localhost:1"]), peer).await);
        assert!(!origins.include(&list(&["10.0.0.1:1"]), peer).await);
        assert!(state(&origins.state).resolved.is_empty());
        assert!(origins.include(&list(&["10.0.0.1:1", "127.0.0.1:1"]), peer).await);
    }

    /// One that never answers holds up no known server, and is asked once.
    #[tokio::test]
    async fn a_lookup_that_hangs_is_not_repeated() {
        let (origins, servers) = (Origins::default(), BTreeSet::from(["slow:1".to_owned(), "10.0.0.1:1".to_owned()]));
        state(&origins.state).under_way.insert("slow:1".to_owned());
        assert!(origins.include(&servers, [10, 0, 0, 1].into()).await);
        assert!(!origins.include(&servers, [10, 0, 0, 2].into()).await);
        assert!(origins.look_up("slow:1").is_none());
    }
}
