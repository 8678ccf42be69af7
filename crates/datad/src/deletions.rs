//! Replicas the metadata server ordered away, until they are deleted ([`crate::deleter`]).
//!
//! ```text
//! order ──▶ the disk that has the block ──▶ its queue
//!              └ none is known to: all of them
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use types::{BlockId, Generation};

/// Orders that wait for a disk. Further ones are dropped: they come again, or with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;
/// Replicas deleted before the thread goes back to the pool.
const BATCH_COUNT: usize = 100;

/// Orders not carried out yet. One that is repeated meanwhile is still one.
#[derive(Debug)]
pub(crate) struct Deletions {
    /// One for each disk.
    queues: Vec<Queue>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    orders: Mutex<Orders>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Orders {
    waiting: BTreeMap<BlockId, Generation>,
    /// Being deleted at this moment.
    in_hand: BTreeMap<BlockId, Generation>,
}

impl Deletions {
    pub(crate) fn new(disk_count: usize) -> Self {
        Self { queues: (0..disk_count).map(|_| Queue::default()).collect() }
    }

    pub(crate) fn order(&self, disk: usize, block: BlockId, generation_at_most: Generation) {
        self.queues[disk].order(block, generation_at_most);
    }

    pub(crate) fn of_disk(&self, disk: usize) -> &Queue {
        &self.queues[disk]
    }

    /// The replica is wanted here after all: an order that waits is off.
    pub(crate) fn withdraw(&self, block: BlockId) {
        self.queues.iter().for_each(|queue| _ = queue.lock().waiting.remove(&block));
    }

    /// Whether a replica of this generation is to go, or just goes.
    pub(crate) fn is_ordered(&self, block: BlockId, generation: Generation) -> bool {
        self.queues.iter().any(|queue| {
            let Orders { waiting, in_hand } = &*queue.lock();
            [waiting, in_hand].iter().any(|orders| orders.get(&block).is_some_and(|at| *at >= generation))
        })
    }

    /// Orders that are still to be carried out.
    pub(crate) fn len(&self) -> usize {
        let len = |queue: &Queue| {
            let orders = queue.lock();
            orders.waiting.len() + orders.in_hand.len()
        };
        self.queues.iter().map(len).sum()
    }
}

impl Queue {
    fn order(&self, block: BlockId, generation_at_most: Generation) {
        let waiting = &mut self.lock().waiting;
        if waiting.len() < WAITING_COUNT_MAX || waiting.contains_key(&block) {
            let known = waiting.entry(block).or_insert(generation_at_most);
            *known = generation_at_most.max(*known);
            self.came.notify_one();
        }
    }

    /// Some that wait, which are in hand from then on. It is to be said what became of them.
    pub(crate) fn take(&self) -> Vec<(BlockId, Generation)> {
        let Orders { waiting, in_hand } = &mut *self.lock();
        assert!(in_hand.is_empty(), "a queue has one task");
        in_hand.extend((0..BATCH_COUNT).map_while(|_| waiting.pop_first()));
        in_hand.iter().map(|(block, generation)| (*block, *generation)).collect()
    }

    pub(crate) fn done(&self) {
        self.lock().in_hand.clear();
    }

    /// The disk does not answer: what was taken waits again.
    pub(crate) fn give_back(&self) {
        let in_hand = std::mem::take(&mut self.lock().in_hand);
        in_hand.into_iter().for_each(|(block, generation)| self.order(block, generation));
    }

    /// The disk has failed, and with it what was there.
    pub(crate) fn clear(&self) {
        *self.lock() = Orders::default();
    }

    /// Returns when there is an order.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_again_is_one_order() {
        let queue = Queue::default();
        for (block, generation) in [(2, 1005), (1, 1001), (2, 1003), (2, 1005)] {
            queue.order(BlockId(block), Generation(generation));
        }
        let orders = [(BlockId(1), Generation(1001)), (BlockId(2), Generation(1005))];
        assert_eq!(queue.take(), orders);
        queue.give_back();
        assert_eq!(queue.take(), orders);
        queue.done();
        assert_eq!(queue.take(), []);
    }

    #[test]
    fn what_is_wanted_after_all_is_not_deleted() {
        let (deletions, block) = (Deletions::new(2), BlockId(7));
        let queue = &deletions.queues[1];
        queue.order(block, Generation(1002));
        assert!(deletions.is_ordered(block, Generation(1002)) && !deletions.is_ordered(block, Generation(1003)));
        deletions.withdraw(block);
        assert!(!deletions.is_ordered(block, Generation(1002)));
        queue.order(block, Generation(1002));
        assert_eq!((queue.take().len(), deletions.len()), (1, 1));
        deletions.withdraw(block);
        assert!(deletions.is_ordered(block, Generation(1002)), "too late: it is being deleted");
    }
}
