//! Which of the metadata servers leads ([`datanode::Servers`]), and those who wait for news of that.

use super::asker::Asker;
use crate::node_lock::NodeLock;
use datanode::Known;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::node::Orders;

#[derive(Debug)]
pub(crate) struct Leader {
    node: Arc<NodeLock>,
    /// True while there is a session with one that leads and knows this node.
    registered: watch::Sender<bool>,
    /// What they said of each other.
    known: watch::Sender<Known>,
    /// Why this node can belong to no server it knows.
    failed: watch::Sender<Option<String>>,
    /// How the one that leads is asked.
    asker: Mutex<Option<Asker>>,
}

impl Leader {
    pub(crate) fn new(node: Arc<NodeLock>) -> Self {
        let (registered, known, failed) =
            (watch::Sender::default(), watch::Sender::default(), watch::Sender::default());
        Self { node, registered, known, failed, asker: Mutex::default() }
    }

    /// Becomes true when a server that leads knows this node.
    pub(crate) fn registered(&self) -> watch::Receiver<bool> {
        self.registered.subscribe()
    }

    pub(crate) fn server_count(&self) -> usize {
        self.node.with(|node| node.servers.count())
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
        self.known.send_if_modified(|known| {
            let news = self.node.with(|node| node.servers.hear(number, orders).then(|| node.servers.known().clone()));
            let is_news = news.is_some();
            *known = news.unwrap_or_else(|| std::mem::take(known));
            is_news
        });
    }

    /// This node can belong to no server it knows.
    pub(super) fn fail(&self, reason: String) {
        self.failed.send_replace(Some(reason));
    }

    /// A session ended for good.
    pub(super) fn ended(&self, number: usize) {
        self.known.send_if_modified(|known| {
            *known = self.node.with(|node| {
                node.session_ended(number);
                node.servers.known().clone()
            });
            false
        });
        self.note_registered();
    }

    /// The server of session `number` cannot be reached, or does not know this node. True if it led before.
    pub(super) fn lost(&self, number: usize) -> bool {
        self.forget_asker(number);
        let before = self.node.with(|node| node.servers.note(number, false));
        self.note_registered();
        before
    }

    /// There is a session with one that leads.
    pub(super) fn note_asker(&self, asker: Asker) {
        *self.lock_asker() = Some(asker);
    }

    fn forget_asker(&self, number: usize) {
        self.lock_asker().take_if(|asker| asker.number == number);
    }

    /// Asks the one that leads; `None` where none is known.
    pub(crate) fn asker(&self) -> Option<Asker> {
        self.lock_asker().clone()
    }

    fn lock_asker(&self) -> MutexGuard<'_, Option<Asker>> {
        self.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those hear who wait for a server that leads.
    pub(super) fn note_registered(&self) {
        self.registered.send_modify(|registered| *registered = self.node.with(|node| node.servers.has_leader()));
    }
}
