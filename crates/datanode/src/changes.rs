//! What changed on this node since the metadata server last heard: put, deleted, left behind by a broken chain.

use std::collections::BTreeMap;
use std::time::Duration;
use types::BlockId;
use types::mutation::{self, Mutation};
use wire::node::{PAGE_COUNT_MAX, Replica};

/// Changes kept while no metadata server can be reached. With more, a full catalogue is as short.
const CHANGE_COUNT_MAX: usize = 10 * PAGE_COUNT_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put(Replica),
    Deleted,
}

/// At most one change a block: the last one counts.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    by_block: BTreeMap<BlockId, Change>,
    /// Left open by a broken chain, and when.
    left: BTreeMap<BlockId, Duration>,
    /// How often changes were dropped.
    overflow_count: u64,
    /// Counts what was taken to be told.
    taken_count: u64,
}

/// What one heartbeat carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) put: Vec<Replica>,
    pub(crate) deleted: Vec<u64>,
    /// Left open long enough ago; somebody may have taken one up since.
    pub(crate) left: Vec<BlockId>,
    /// Which it is, of those that carry changes.
    pub(crate) number: u64,
}

impl Batch {
    fn has_changes(&self) -> bool {
        !self.put.is_empty() || !self.deleted.is_empty()
    }
}

impl Changes {
    pub(crate) fn put(&mut self, replica: Replica) {
        self.add(replica.block_id(), Change::Put(replica), true);
    }

    pub(crate) fn deleted(&mut self, block: BlockId) {
        self.add(block, Change::Deleted, true);
    }

    /// A chain broke off at the time `now` and left the block open.
    pub(crate) fn left(&mut self, block: BlockId, now: Duration) {
        if self.left.len() >= CHANGE_COUNT_MAX {
            self.overflow();
            self.left.clear();
        }
        self.left.insert(block, now);
    }

    fn add(&mut self, block: BlockId, change: Change, newer: bool) {
        if self.by_block.len() >= CHANGE_COUNT_MAX {
            self.overflow();
            self.by_block.clear();
        }
        if newer {
            self.left.remove(&block);
            self.by_block.insert(block, change);
        } else {
            self.by_block.entry(block).or_insert(change);
        }
    }

    /// Takes what waits, as much as one message may carry, and what was left open at `left_until` or before.
    pub(crate) fn take(&mut self, left_until: Option<Duration>) -> Batch {
        let mut batch = Batch::default();
        if let Some(until) = left_until {
            let due = self.left.iter().filter(|(_, since)| **since <= until).map(|(block, _)| *block);
            batch.left = due.take(PAGE_COUNT_MAX).collect();
            for block in &batch.left {
                self.left.remove(block);
            }
        }
        for _ in 0..PAGE_COUNT_MAX {
            match self.by_block.pop_first() {
                Some((_, Change::Put(replica))) => batch.put.push(replica),
                Some((block, Change::Deleted)) => batch.deleted.push(block.0),
                None => break,
            }
        }
        self.taken_count += u64::from(batch.has_changes());
        batch.number = self.taken_count;
        batch
    }

    /// A heartbeat is to carry the rest.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.by_block.is_empty()
    }

    /// The metadata server did not answer: what it was told waits again, unless something newer is known of the block.
    /// If other changes were told meanwhile, in another session, these may be older than what was told there: only a
    /// catalogue says how things are.
    pub(crate) fn give_back(&mut self, mut batch: Batch) {
        let is_old = batch.number < self.taken_count && !mutation::is(Mutation::TellOldNews);
        if batch.has_changes() && is_old {
            (batch.put, batch.deleted) = Default::default();
            self.overflow();
        }
        let put = batch.put.into_iter().map(|replica| (replica.block_id(), Change::Put(replica)));
        let deleted = batch.deleted.into_iter().map(|block| (BlockId(block), Change::Deleted));
        for (block, change) in put.chain(deleted) {
            self.add(block, change, false);
        }
        for block in batch.left {
            self.left(block, Duration::ZERO);
        }
    }

    /// Only a catalogue tells all.
    pub(crate) fn overflow(&mut self) {
        self.overflow_count += 1;
    }

    /// How often changes were dropped, so that only a catalogue tells all since.
    pub(crate) fn overflow_count(&self) -> u64 {
        self.overflow_count
    }

    pub(crate) fn check(&self) {
        assert!(self.by_block.len() <= CHANGE_COUNT_MAX, "changes beyond the limit are left to a catalogue");
        assert!(self.left.len() <= CHANGE_COUNT_MAX, "what was left open beyond the limit is left to a catalogue");
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
        let mut changes = Changes::default();
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
        assert_eq!((again.put, again.deleted, again.left), (put, vec![1], vec![BlockId(3)]));
        assert!(!changes.is_waiting());
    }

    /// The first session's server hangs; the second one's leads meanwhile, and heard that the block is gone.
    #[test]
    fn old_news_are_not_told_after_newer_ones() {
        let mut changes = Changes::default();
        changes.put(replica(1, 1));
        let first = changes.take(None);
        changes.deleted(BlockId(1));
        assert_eq!(changes.take(None).deleted, [1]);
        changes.give_back(first);
        assert!(!changes.is_waiting() && changes.overflow_count() == 1);
    }

    #[test]
    fn what_was_left_open_since_is_not_forgotten_for_old_news() {
        let mut changes = Changes::default();
        changes.put(replica(3, 1));
        let sent = changes.take(None);
        changes.left(BlockId(3), Duration::ZERO);
        changes.give_back(sent);
        assert_eq!(changes.take(Some(Duration::ZERO)).left, [BlockId(3)]);
    }

    #[test]
    fn a_long_silence_ends_with_a_catalogue() {
        let mut changes = Changes::default();
        for block in 0..=CHANGE_COUNT_MAX as u64 {
            changes.put(replica(block, 1));
        }
        changes.check();
        assert_eq!(changes.take(None).put.len(), 1);
        assert_eq!(changes.overflow_count(), 1);
    }
}
