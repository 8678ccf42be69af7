//! Which file a replica belongs to, where its writer did not say: recorded beside the heartbeats, for the replica's disk may hang, or a
//! writer that waits for it may hold the block.

use crate::node::Node;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{BlockId, ContainerId, InodeId};
use wire::node::Owner;

/// Orders that wait. Further ones are dropped: they come again with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Owners {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Owner>,
    /// There is a thread that sees to them.
    running: bool,
}

impl Owners {
    /// Waits for nothing.
    pub(crate) fn order(&self, node: &Arc<Node>, owners: Vec<Owner>) {
        let mut queue = self.lock();
        let room = WAITING_COUNT_MAX.saturating_sub(queue.waiting.len());
        queue.waiting.extend(owners.into_iter().take(room));
        if !queue.running && !queue.waiting.is_empty() {
            let of_thread = Arc::clone(node);
            match io::task::thread("owners", move || of_thread.owners.work(&of_thread)) {
                Ok(_) => queue.running = true,
                Err(error) => tracing::error!(%error, "no thread to record the owners of replicas"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, node: &Node) {
        while let Some(Owner { block, file, home }) = self.take(node.stop.is_set()) {
            let block = BlockId(block);
            if let Err(error) = node.disks.set_owner(block, InodeId(file), ContainerId(home)) {
                tracing::error!(%block, %error, "a replica's owner could not be recorded");
            }
        }
    }

    /// `None`: the thread ends, which is noted under the same lock, so that orders which come just then begin another.
    fn take(&self, stopping: bool) -> Option<Owner> {
        let mut queue = self.lock();
        let next = if stopping { None } else { queue.waiting.pop_front() };
        queue.running = next.is_some();
        next
    }
}
