//! Which servers are the store's: its metadata servers, and the datanodes that they name.

use client::Client;
use io::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How long an answer is believed without another question. A datanode that is gone is not dialled by clients anyway.
const VALID_FOR: Duration = Duration::from_secs(60);
/// Between two questions: whoever asks for what is not the store's causes no more of them.
const ASK_EACH: Duration = Duration::from_secs(1);
/// For an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Servers {
    client: Client,
    clock: SystemClock,
    /// Those that the address of the store names.
    configured: BTreeSet<String>,
    /// Datanodes may be on this machine, where all kinds of programs listen.
    may_be_here: bool,
    known: Mutex<Known>,
    /// Held by who asks the store: when the last question ended. Those who ask for what is known do not wait for it.
    asked: tokio::sync::Mutex<Option<Duration>>,
}

#[derive(Debug, Default)]
struct Known {
    addrs: BTreeSet<String>,
    heard: Option<Duration>,
}

impl Servers {
    pub(crate) fn new(client: Client, may_be_here: bool) -> Self {
        let configured = client.url().addrs().map(str::to_owned).collect();
        let (known, asked) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { client, clock: SystemClock::new(), configured, may_be_here, known, asked }
    }

    /// A metadata server on this machine, if there is one.
    pub(crate) async fn beside(&self) -> Option<String> {
        for addr in &self.configured {
            let found = lookup_host(addr).await.into_iter().flatten();
            if found.map(|addr| addr.ip()).any(is_own) {
                return Some(addr.clone());
            }
        }
        None
    }

    /// Whether `addr` is one of the store's. The store is asked if it is not known to be. While it does not answer,
    /// what it said before counts.
    pub(crate) async fn has(&self, addr: &str) -> bool {
        if self.configured.contains(addr) || self.knows(addr, Some(VALID_FOR)) {
            return true;
        }
        let mut asked = self.asked.lock().await;
        let is_due = asked.is_none_or(|asked| self.clock.monotonic().saturating_sub(asked) >= ASK_EACH);
        if is_due && !self.knows(addr, Some(VALID_FOR)) {
            match timeout(ANSWER_TIME_MAX, self.client.server_addrs()).await {
                Ok(Ok(addrs)) => {
                    let addrs = addrs.into_iter().filter(|addr| is_sensible(addr, self.may_be_here)).collect();
                    *self.known() = Known { addrs, heard: Some(self.clock.monotonic()) };
                }
                Ok(Err(error)) => tracing::warn!(%error, "the store does not say which servers it has"),
                Err(_elapsed) => tracing::warn!("the store does not say in time which servers it has"),
            }
            *asked = Some(self.clock.monotonic());
        }
        self.knows(addr, None)
    }

    fn knows(&self, addr: &str, within: Option<Duration>) -> bool {
        let known = self.known();
        let age = known.heard.map(|heard| self.clock.monotonic().saturating_sub(heard));
        known.addrs.contains(addr) && age.is_some_and(|age| within.is_none_or(|max| age < max))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A datanode says itself where it is. One that claims to be this machine would lead clients to its other services.
fn is_sensible(addr: &str, may_be_here: bool) -> bool {
    let Ok(addr) = addr.parse::<SocketAddr>() else { return false };
    let ip = addr.ip().to_canonical();
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !is_link_local && (may_be_here || !is_own(ip))
}

/// Whether it is an address of this machine: only of those a socket can be.
fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datanode_leads_nobody_to_what_is_on_this_machine() {
        for addr in ["127.0.0.1:22", "127.9.9.9:22", "[::1]:22", "0.0.0.0:22"] {
            assert!(!is_sensible(addr, false), "{addr}");
            assert!(is_sensible(addr, true), "{addr}");
        }
        for addr in ["169.254.169.254:80", "[fe80::1]:80", "[::ffff:169.254.1.1]:80", "host:80"] {
            assert!(!is_sensible(addr, true), "{addr}");
        }
        assert!(is_sensible("203.0.113.7:9866", false), "of the addresses that are nobody's");
    }
}
