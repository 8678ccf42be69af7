//! Which of the metadata servers leads, as far as the sessions with them know.

use super::known::Known;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use wire::node::Orders;

#[derive(Debug)]
pub(crate) struct Leader {
    /// Sessions with numbers below are those with servers that the configuration names.
    configured_count: usize,
    /// How many servers there are, as far as is known.
    server_count: AtomicUsize,
    /// The session with the one that leads and knows this node.
    number: watch::Sender<Option<usize>>,
    /// The highest that any server named.
    term: AtomicU64,
    /// What they said of each other.
    known: watch::Sender<Known>,
    /// Sessions with servers of another block pool, until they are of this node's.
    foreign: Mutex<BTreeSet<usize>>,
    /// Why this node can belong to no server it knows.
    failed: watch::Sender<Option<String>>,
}

impl Leader {
    pub(crate) fn new(configured_count: usize) -> Self {
        let (server_count, term) = (AtomicUsize::new(configured_count), AtomicU64::new(0));
        let (number, known, failed) = (watch::Sender::default(), watch::Sender::default(), watch::Sender::default());
        Self { configured_count, server_count, number, term, known, foreign: Mutex::default(), failed }
    }

    /// There is a number while a server that leads knows this node.
    pub(crate) fn number(&self) -> watch::Receiver<Option<usize>> {
        self.number.subscribe()
    }

    pub(crate) fn server_count(&self) -> usize {
        self.server_count.load(Ordering::Relaxed)
    }

    /// Becomes the reason when this node turns out to be another cluster's.
    pub(crate) fn failed(&self) -> watch::Receiver<Option<String>> {
        self.failed.subscribe()
    }

    /// What the servers said of themselves and each other, as it changes.
    pub(crate) fn known(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    pub(super) fn note_servers(&self, number: usize, orders: &Orders) {
        let is_news = self.known.send_if_modified(|known| known.take(number, orders));
        if is_news {
            let count = self.known.borrow().member_count();
            self.server_count.fetch_max(count, Ordering::Relaxed);
        }
    }

    /// This node can belong to no server it knows.
    pub(super) fn fail(&self, reason: String) {
        self.failed.send_replace(Some(reason));
    }

    /// Notes whether the server of session `number` is of another block pool. True if it was so before.
    pub(super) fn note_foreign(&self, number: usize, is_foreign: bool) -> bool {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if is_foreign { !foreign.insert(number) } else { foreign.remove(&number) }
    }

    /// True if no server is left that may be of this node's block pool: all that the configuration names are of
    /// another, and there is no session with one that joined them. A server among several may have lost its data and
    /// begun a store anew.
    pub(super) fn is_all_foreign(&self) -> bool {
        let foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        (0..self.configured_count).all(|number| foreign.contains(&number))
            && self.known.borrow().sessions().all(|number| foreign.contains(&number))
    }

    /// A session ended for good.
    pub(crate) fn ended(&self, number: usize, forget: impl FnOnce(&mut Known)) {
        self.note(number, false);
        self.note_foreign(number, false);
        self.known.send_if_modified(|known| {
            forget(known);
            false
        });
    }

    /// Notes whether the server of session `number` leads. True if it was so before.
    pub(super) fn note(&self, number: usize, leads: bool) -> bool {
        let mut before = false;
        self.number.send_if_modified(|known| {
            before = *known == Some(number);
            *known = if leads { Some(number) } else { known.filter(|known| *known != number) };
            before != leads
        });
        before
    }

    /// False for a server that does not know that another one was elected after it. One that is alone is always
    /// believed: its log may have been put back from a copy.
    pub(super) fn is_believed(&self, term: u64) -> bool {
        self.server_count() == 1 || self.term.fetch_max(term, Ordering::Relaxed) <= term
    }
}
