//! What changed on this node since metad last heard: put, deleted, left behind by a broken chain.

use crate::heartbeat_progress::HeartbeatProgress;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use types::BlockId;
use wire::node::{PAGE_COUNT_MAX, Replica};

/// Changes kept while metad cannot be reached. With more, a full catalogue is as short.
const CHANGE_COUNT_MAX: usize = 10 * PAGE_COUNT_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put(Replica),
    Deleted,
}

/// At most one change a block: the last one counts.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: Mutex<Waiting>,
    came: Notify,
    heartbeats: HeartbeatProgress,
}

#[derive(Debug, Default)]
struct Waiting {
    by_block: BTreeMap<BlockId, Change>,
    /// Left open by a broken chain, and when.
    left: BTreeMap<BlockId, Duration>,
    overflowed: bool,
}

/// What one heartbeat carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) put: Vec<Replica>,
    pub(crate) deleted: Vec<u64>,
    /// Left open long enough ago; somebody may have taken one up since.
    pub(crate) left: Vec<BlockId>,
}

impl Changes {
    /// Has the next heartbeat begin soon.
    pub(crate) fn report_soon(&self) {
        self.came.notify_one();
    }

    /// Returns when there is something that should be told soon.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
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

    pub(crate) fn put(&self, replica: Replica) {
        self.add(replica.block_id(), Change::Put(replica), true);
        self.report_soon();
    }

    pub(crate) fn deleted(&self, block: BlockId) {
        self.add(block, Change::Deleted, true);
    }

    /// A chain broke off at the time `now` and left the block open.
    pub(crate) fn left(&self, block: BlockId, now: Duration) {
        let mut waiting = self.lock();
        if waiting.left.len() >= CHANGE_COUNT_MAX {
            waiting.overflowed = true;
            waiting.left.clear();
        }
        waiting.left.insert(block, now);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, block: BlockId, change: Change, newer: bool) {
        let mut waiting = self.lock();
        if waiting.by_block.len() >= CHANGE_COUNT_MAX {
            waiting.overflowed = true;
            waiting.by_block.clear();
        }
        waiting.left.remove(&block);
        if newer {
            waiting.by_block.insert(block, change);
        } else {
            waiting.by_block.entry(block).or_insert(change);
        }
    }

    /// Takes what waits, as much as one message may carry, and what was left open at `left_until` or before.
    pub(crate) fn take(&self, left_until: Option<Duration>) -> Batch {
        let mut waiting = self.lock();
        let mut batch = Batch::default();
        if let Some(until) = left_until {
            let due = waiting.left.iter().filter(|(_, since)| **since <= until).map(|(block, _)| *block);
            batch.left = due.take(PAGE_COUNT_MAX).collect();
            for block in &batch.left {
                waiting.left.remove(block);
            }
        }
        for _ in 0..PAGE_COUNT_MAX {
            match waiting.by_block.pop_first() {
                Some((_, Change::Put(replica))) => batch.put.push(replica),
                Some((block, Change::Deleted)) => batch.deleted.push(block.0),
                None => break,
            }
        }
        if !waiting.by_block.is_empty() {
            self.came.notify_one();
        }
        batch
    }

    /// Metad did not answer: what it was told waits again, unless something newer is known of the block.
    pub(crate) fn give_back(&self, batch: Batch) {
        let put = batch.put.into_iter().map(|replica| (replica.block_id(), Change::Put(replica)));
        let deleted = batch.deleted.into_iter().map(|block| (BlockId(block), Change::Deleted));
        for (block, change) in put.chain(deleted) {
            self.add(block, change, false);
        }
        for block in batch.left {
            self.left(block, Duration::ZERO);
        }
    }

    /// Only a catalogue tells all: it is to be sent soon.
    pub(crate) fn overflow(&self) {
        self.lock().overflowed = true;
        self.came.notify_one();
    }

    /// Whether changes were dropped, so that only a catalogue tells all; asked once.
    pub(crate) fn overflowed(&self) -> bool {
        std::mem::take(&mut self.lock().overflowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(block: u64, generation: u64) -> Replica {
        Replica { block, generation, ..Replica::default() }
    }

    #[test]
    fn an_unanswered_heartbeat_does_not_undo_what_came_since() {
        let changes = Changes::default();
        changes.put(replica(1, 1));
        changes.put(replica(2, 1));
        changes.left(BlockId(3), Duration::from_secs(5));
        changes.left(BlockId(4), Duration::from_secs(7));
        let sent = changes.take(Some(Duration::from_secs(6)));
        assert_eq!((sent.put.len(), &sent.left[..]), (2, &[BlockId(3)][..]));
        changes.deleted(BlockId(1));
        changes.put(replica(3, 2));
        changes.give_back(sent);
        changes.put(replica(4, 2));
        let again = changes.take(Some(Duration::from_secs(9)));
        let put = vec![replica(2, 1), replica(3, 2), replica(4, 2)];
        assert_eq!(again, Batch { put, deleted: vec![1], left: vec![BlockId(3)] });
        assert_eq!(changes.take(None), Batch::default());
    }

    #[test]
    fn a_long_silence_ends_with_a_catalogue() {
        let changes = Changes::default();
        for block in 0..=CHANGE_COUNT_MAX as u64 {
            changes.put(replica(block, 1));
        }
        assert_eq!(changes.take(None).put.len(), 1);
        assert!(changes.overflowed() && !changes.overflowed());
    }
}
