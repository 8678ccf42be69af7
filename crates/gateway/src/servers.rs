//! Which servers are the store's: its metadata servers, and the datanodes that they name.

use client::Client;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an answer is believed. A datanode that is gone is not dialled by clients anyway.
const VALID_FOR: Duration = Duration::from_secs(60);
/// Between two questions: whoever asks for what is not the store's causes no more of them.
const ASK_EACH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Servers {
    client: Client,
    /// Those that the address of the store names.
    configured: BTreeSet<String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    addrs: BTreeSet<String>,
    /// When they were asked for last, and when with success.
    asked: Option<Instant>,
    heard: Option<Instant>,
}

fn is_younger(since: Option<Instant>, than: Duration) -> bool {
    since.is_some_and(|since| since.elapsed() < than)
}

impl Servers {
    pub(crate) fn new(client: Client) -> Self {
        let configured = client.url().addrs().map(str::to_owned).collect();
        Self { client, configured, known: Mutex::default() }
    }

    /// Whether `addr` is one of the store's. The store is asked if it is not known to be.
    pub(crate) async fn has(&self, addr: &str) -> bool {
        if self.configured.contains(addr) {
            return true;
        }
        let mut known = self.known.lock().await;
        if known.addrs.contains(addr) && is_younger(known.heard, VALID_FOR) {
            return true;
        }
        if is_younger(known.asked, ASK_EACH) {
            return false;
        }
        known.asked = Some(Instant::now());
        match self.client.server_addrs().await {
            Ok(addrs) => (known.addrs, known.heard) = (addrs, Some(Instant::now())),
            Err(error) => tracing::warn!(%error, "the store does not say which servers it has"),
        }
        known.addrs.contains(addr) && is_younger(known.heard, VALID_FOR)
    }
}
