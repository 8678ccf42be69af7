//! Which servers are the store's: its metadata servers, and the datanodes that they name.

use client::Client;
use io::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an answer is believed. A datanode that is gone is not dialled by clients anyway.
const VALID_FOR: Duration = Duration::from_secs(60);
/// Between two questions: whoever asks for what is not the store's causes no more of them.
const ASK_EACH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Servers {
    client: Client,
    clock: SystemClock,
    /// Those that the address of the store names.
    configured: BTreeSet<String>,
    known: Mutex<Known>,
    /// Held by who asks the store: when somebody did so last. Those who ask for what is known do not wait for it.
    asked: tokio::sync::Mutex<Option<Duration>>,
}

#[derive(Debug, Default)]
struct Known {
    addrs: BTreeSet<String>,
    heard: Duration,
}

impl Servers {
    pub(crate) fn new(client: Client) -> Self {
        let configured = client.url().addrs().map(str::to_owned).collect();
        let (known, asked) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { client, clock: SystemClock::new(), configured, known, asked }
    }

    /// Whether `addr` is one of the store's. The store is asked if it is not known to be.
    pub(crate) async fn has(&self, addr: &str) -> bool {
        if self.configured.contains(addr) || self.knows(addr) {
            return true;
        }
        let mut asked = self.asked.lock().await;
        let now = self.clock.monotonic();
        let is_due = asked.is_none_or(|asked| now.saturating_sub(asked) >= ASK_EACH);
        if is_due && !self.knows(addr) {
            *asked = Some(now);
            match self.client.server_addrs().await {
                Ok(addrs) => *self.known() = Known { addrs, heard: now },
                Err(error) => tracing::warn!(%error, "the store does not say which servers it has"),
            }
        }
        self.knows(addr)
    }

    fn knows(&self, addr: &str) -> bool {
        let known = self.known();
        known.addrs.contains(addr) && self.clock.monotonic().saturating_sub(known.heard) < VALID_FOR
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
