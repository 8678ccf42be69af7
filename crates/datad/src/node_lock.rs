//! What this node has to report and to carry out ([`Datanode`]), behind its lock, and those who wait for a change of
//! it.

use crate::heartbeat_progress::HeartbeatProgress;
use datanode::{Datanode, Due};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Held for a moment: nobody waits for a disk or for another lock meanwhile.
#[derive(Debug)]
pub(crate) struct NodeLock {
    node: Mutex<Datanode>,
    report_due: Notify,
    /// One for each disk.
    deletions_due: Vec<Notify>,
    heartbeats: HeartbeatProgress,
}

impl NodeLock {
    /// `server_count`: metadata servers that the configuration names.
    pub(crate) fn new(disk_count: usize, server_count: usize) -> Self {
        Self {
            node: Mutex::new(Datanode::new(disk_count, server_count)),
            report_due: Notify::new(),
            deletions_due: (0..disk_count).map(|_| Notify::new()).collect(),
            heartbeats: HeartbeatProgress::default(),
        }
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Datanode) -> T) -> T {
        let mut node = self.lock();
        let outcome = change(&mut node);
        let Due { report, deleters } = node.take_due();
        drop(node);
        if report {
            self.report_soon();
        }
        deleters.into_iter().for_each(|disk| self.deletions_due[disk].notify_one());
        outcome
    }

    /// Has the next heartbeat begin soon.
    pub(crate) fn report_soon(&self) {
        self.report_due.notify_one();
    }

    /// Returns when there is something that should be told soon.
    pub(crate) async fn report_due(&self) {
        self.report_due.notified().await;
    }

    /// Returns when there are orders to delete from this disk.
    pub(crate) async fn deletions_due(&self, disk: usize) {
        self.deletions_due[disk].notified().await;
    }

    /// How far the metadata server has heard of this node.
    pub(crate) fn heartbeats(&self) -> &HeartbeatProgress {
        &self.heartbeats
    }

    /// Has the metadata server hear now what is so now, but waits no longer than `most`; true if it has. Blocks.
    pub(crate) fn report_within(&self, most: Duration) -> bool {
        let before = self.heartbeats.begun(); // the one that is called for now may be over before this thread goes on
        self.report_soon();
        self.heartbeats.wait(before, most)
    }

    fn lock(&self) -> MutexGuard<'_, Datanode> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
