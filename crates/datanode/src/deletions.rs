//! Replicas the metadata server ordered away, until they are deleted.
//!
//! ```text
//! order ──▶ the disk that has the block ──▶ its queue ──▶ in hand ──▶ done
//!              └ none is known to: all of them   ▲            └ the disk does not answer
//!                                                └────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use types::mutation::{self, Mutation};
use types::{BlockId, Generation};

/// Orders that wait for a disk. Further ones are dropped: they come again, or with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;
/// Replicas that are in hand at a time.
const BATCH_COUNT: usize = 100;

/// Orders not carried out yet. One that is repeated meanwhile is still one.
#[derive(Debug)]
pub struct Deletions {
    /// One for each disk.
    queues: Vec<Queue>,
    /// Disks with orders that whoever deletes has not heard of.
    due: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<BlockId, Generation>,
    /// Being deleted at this moment.
    in_hand: BTreeMap<BlockId, Generation>,
    /// What is in hand was ordered by a leader of before: it does not wait again.
    is_void: bool,
}

impl Deletions {
    pub(crate) fn new(disk_count: usize) -> Self {
        Self { queues: (0..disk_count).map(|_| Queue::default()).collect(), due: BTreeSet::new() }
    }

    /// Replicas of this generation or an earlier one are to go from this disk.
    pub fn order(&mut self, disk: usize, block: BlockId, generation_at_most: Generation) {
        if mutation::is(Mutation::ForgetDeletions) {
            return;
        }
        let waiting = &mut self.queues[disk].waiting;
        if waiting.len() < WAITING_COUNT_MAX || waiting.contains_key(&block) {
            let known = waiting.entry(block).or_insert(generation_at_most);
            *known = generation_at_most.max(*known);
            self.due.insert(disk);
        }
    }

    /// The replica is wanted here after all: an order that waits is off.
    pub(crate) fn withdraw(&mut self, block: BlockId) {
        self.queues.iter_mut().for_each(|queue| _ = queue.waiting.remove(&block));
    }

    /// Another server leads. Whom the one before asked about other replicas may be gone by now, so that what waits
    /// could be the last copy: the new leader knows by the catalogue what is here, and orders for itself.
    pub(crate) fn withdraw_all(&mut self) {
        for queue in &mut self.queues {
            queue.waiting.clear();
            queue.is_void = true;
        }
    }

    /// Whether a replica of this generation is to go, or just goes.
    pub fn is_ordered(&self, block: BlockId, generation: Generation) -> bool {
        let mut orders = self.queues.iter().flat_map(|queue| [&queue.waiting, &queue.in_hand]);
        orders.any(|orders| orders.get(&block).is_some_and(|at| *at >= generation))
    }

    /// Orders that are still to be carried out.
    pub fn count(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len() + queue.in_hand.len()).sum()
    }

    /// Some that wait for this disk, which are in hand from then on. It is to be said what became of them.
    pub fn take(&mut self, disk: usize) -> Vec<(BlockId, Generation)> {
        let Queue { waiting, in_hand, is_void } = &mut self.queues[disk];
        assert!(in_hand.is_empty(), "one task deletes from a disk");
        *is_void = false;
        in_hand.extend((0..BATCH_COUNT).map_while(|_| waiting.pop_first()));
        in_hand.iter().map(|(block, generation)| (*block, *generation)).collect()
    }

    /// What was in hand is deleted, or could not be.
    pub fn done(&mut self, disk: usize) {
        self.queues[disk].in_hand.clear();
    }

    /// The disk does not answer: what was taken waits again.
    pub fn give_back(&mut self, disk: usize) {
        let in_hand = std::mem::take(&mut self.queues[disk].in_hand);
        if self.queues[disk].is_void {
            return;
        }
        in_hand.into_iter().for_each(|(block, generation)| self.order(disk, block, generation));
    }

    /// The disk has failed, and with it what was there.
    pub fn clear(&mut self, disk: usize) {
        self.queues[disk] = Queue::default();
    }

    pub(crate) fn take_due(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.due)
    }

    pub(crate) fn check(&self) {
        for Queue { waiting, in_hand, is_void: _ } in &self.queues {
            assert!(waiting.len() <= WAITING_COUNT_MAX, "orders beyond the limit are dropped");
            assert!(in_hand.len() <= BATCH_COUNT, "no more is in hand than a batch");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_again_is_one_order() {
        let mut deletions = Deletions::new(1);
        for (block, generation) in [(2, 1005), (1, 1001), (2, 1003), (2, 1005)] {
            deletions.order(0, BlockId(block), Generation(generation));
        }
        let orders = [(BlockId(1), Generation(1001)), (BlockId(2), Generation(1005))];
        assert_eq!(deletions.take_due(), BTreeSet::from([0]));
        assert_eq!(deletions.take(0), orders);
        deletions.give_back(0);
        deletions.check();
        assert_eq!(deletions.take(0), orders);
        deletions.done(0);
        assert_eq!(deletions.take(0), []);
    }

    #[test]
    fn what_is_wanted_after_all_is_not_deleted() {
        let (mut deletions, block) = (Deletions::new(2), BlockId(7));
        deletions.order(1, block, Generation(1002));
        assert!(deletions.is_ordered(block, Generation(1002)) && !deletions.is_ordered(block, Generation(1003)));
        deletions.withdraw(block);
        assert!(!deletions.is_ordered(block, Generation(1002)));
        deletions.order(1, block, Generation(1002));
        assert_eq!((deletions.take(1).len(), deletions.count()), (1, 1));
        deletions.withdraw(block);
        assert!(deletions.is_ordered(block, Generation(1002)), "too late: it is being deleted");
    }
}
