//! Which file a replica belongs to, where its writer did not say: recorded beside the heartbeats, for the replica's
//! disk may hang, or a writer that waits for it may hold the block.
//!
//! Promise: whoever orders waits for nothing. A disk that does not answer is waited for until it is given up.

use disks::Disks;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use types::{BlockId, ContainerId, InodeId};
use wire::node::Owner;

/// Orders that wait. Further ones are dropped: they come again with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;

#[derive(Debug)]
pub(crate) struct OwnerRecorder {
    disks: Disks,
    waiting: Mutex<VecDeque<Owner>>,
    came: Notify,
}

impl OwnerRecorder {
    pub(crate) fn new(disks: Disks) -> Self {
        Self { disks, waiting: Mutex::default(), came: Notify::new() }
    }

    pub(crate) fn order(&self, owners: Vec<Owner>) {
        let mut waiting = self.lock();
        let room = WAITING_COUNT_MAX.saturating_sub(waiting.len());
        waiting.extend(owners.into_iter().take(room));
        self.came.notify_one();
    }

    /// Records until the future is dropped.
    pub(crate) async fn run(&self) {
        loop {
            let next = self.lock().pop_front();
            let Some(Owner { block, file, home }) = next else {
                self.came.notified().await;
                continue;
            };
            let block = BlockId(block);
            let record = move |disks: &Disks| disks.set_owner(block, InodeId(file), ContainerId(home));
            if let Err(error) = self.disks.for_block(block, record).await.flatten() {
                tracing::error!(%block, %error, "a replica's owner could not be recorded");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Owner>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
