//! Replicas the metadata server ordered away, deleted beside the heartbeats: thousands of large files take a disk
//! longer than a node may be silent.
//!
//! ```text
//! order ──▶ the disk that has the block ──▶ its queue ──▶ a task for each disk ──▶ deleted in that disk's share of threads
//!              └ none is known to: all of them
//! ```
//!
//! Promise: a disk that hangs holds up its own deletions alone. Those of one that was given up are dropped: what is
//! there is out.

use crate::node::Node;
use disks::Disks;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use types::{BlockId, Generation};

/// Orders that wait for a disk. Further ones are dropped: they come again, or with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;
/// Replicas deleted before the thread goes back to the pool.
const BATCH_COUNT: usize = 100;
/// Until a disk that does not answer is tried again.
const REST: Duration = Duration::from_secs(1);

/// Orders not carried out yet. One that is repeated meanwhile is still one.
#[derive(Debug)]
pub(crate) struct Deleter {
    /// One for each disk.
    queues: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    orders: Mutex<Orders>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Orders {
    waiting: BTreeMap<BlockId, Generation>,
    /// Being deleted at this moment.
    in_hand: BTreeMap<BlockId, Generation>,
}

impl Deleter {
    pub(crate) fn new(disk_count: usize) -> Self {
        Self { queues: (0..disk_count).map(|_| Queue::default()).collect() }
    }

    pub(crate) fn order(&self, disks: &Disks, block: BlockId, generation_at_most: Generation) {
        for at in disks.to_delete_from(block) {
            self.queues[at].order(block, generation_at_most);
        }
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

    fn take(&self) -> Vec<(BlockId, Generation)> {
        let Orders { waiting, in_hand } = &mut *self.lock();
        in_hand.extend((0..BATCH_COUNT).map_while(|_| waiting.pop_first()));
        in_hand.iter().map(|(block, generation)| (*block, *generation)).collect()
    }

    fn done(&self) {
        self.lock().in_hand.clear();
    }

    /// The disk does not answer: what was taken waits again.
    fn give_back(&self) {
        let in_hand = std::mem::take(&mut self.lock().in_hand);
        in_hand.into_iter().for_each(|(block, generation)| self.order(block, generation));
    }

    fn clear(&self) {
        *self.lock() = Orders::default();
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes from one disk until the task is dropped.
pub(crate) async fn run(node: Arc<Node>, number: usize) {
    let queue = &node.deleter.queues[number];
    loop {
        let batch = queue.take();
        if batch.is_empty() {
            queue.came.notified().await;
            continue;
        }
        let at = Arc::clone(&node);
        let done = node.disks.for_disk(number, move |_| delete(&at, number, batch)).await;
        match done {
            Ok(()) => queue.done(),
            Err(_hangs) if node.disks.out().contains(&number) => queue.clear(),
            Err(_hangs) => {
                queue.give_back();
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn delete(node: &Node, number: usize, batch: Vec<(BlockId, Generation)>) {
    for (block, generation_at_most) in batch {
        let places = node.disks.to_delete_from(block);
        if !places.contains(&number) {
            // It has moved since, or its disk is out.
            places.iter().for_each(|at| node.deleter.queues[*at].order(block, generation_at_most));
            continue;
        }
        match node.disks.delete_at(number, block, generation_at_most) {
            Ok(true) => {
                node.copier.forget_bad(block);
                node.changes.deleted(block);
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%block, %error, "a replica could not be deleted"),
        }
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
        let (deleter, block) = (Deleter::new(2), BlockId(7));
        let queue = &deleter.queues[1];
        queue.order(block, Generation(1002));
        assert!(deleter.is_ordered(block, Generation(1002)) && !deleter.is_ordered(block, Generation(1003)));
        deleter.withdraw(block);
        assert!(!deleter.is_ordered(block, Generation(1002)));
        queue.order(block, Generation(1002));
        assert_eq!((queue.take().len(), deleter.len()), (1, 1));
        deleter.withdraw(block);
        assert!(deleter.is_ordered(block, Generation(1002)), "too late: it is being deleted");
    }
}
