//! Replicas the metadata server ordered away, deleted beside the heartbeats: thousands of large files take a disk longer than
//! a node may be silent.

use crate::node::Node;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use types::{BlockId, Generation};

/// Orders that wait. Further ones are dropped: they come again, or with the next catalogue.
const WAITING_COUNT_MAX: usize = 100_000;
/// Replicas deleted before the thread goes back to the pool.
const BATCH_COUNT: usize = 100;

/// Orders not carried out yet. One that is repeated meanwhile is still one.
#[derive(Debug, Default)]
pub(crate) struct Deleter {
    queue: Mutex<Queue>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<BlockId, Generation>,
    /// Being deleted at this moment.
    in_hand: BTreeMap<BlockId, Generation>,
}

impl Deleter {
    pub(crate) fn order(&self, block: BlockId, generation_at_most: Generation) {
        let waiting = &mut self.lock().waiting;
        if waiting.len() < WAITING_COUNT_MAX || waiting.contains_key(&block) {
            let known = waiting.entry(block).or_insert(generation_at_most);
            *known = generation_at_most.max(*known);
            self.came.notify_one();
        }
    }

    /// The replica is wanted here after all: an order that waits is off.
    pub(crate) fn withdraw(&self, block: BlockId) {
        self.lock().waiting.remove(&block);
    }

    /// Whether a replica of this generation is to go, or just goes.
    pub(crate) fn is_ordered(&self, block: BlockId, generation: Generation) -> bool {
        let queue = self.lock();
        [&queue.waiting, &queue.in_hand].iter().any(|orders| orders.get(&block).is_some_and(|at| *at >= generation))
    }

    /// Orders that are still to be carried out.
    pub(crate) fn len(&self) -> usize {
        let queue = self.lock();
        queue.waiting.len() + queue.in_hand.len()
    }

    fn take(&self) -> Vec<(BlockId, Generation)> {
        let Queue { waiting, in_hand } = &mut *self.lock();
        in_hand.extend((0..BATCH_COUNT).map_while(|_| waiting.pop_first()));
        in_hand.iter().map(|(block, generation)| (*block, *generation)).collect()
    }

    fn done(&self) {
        self.lock().in_hand.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes until the task is dropped.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        let batch = node.deleter.take();
        if batch.is_empty() {
            node.deleter.came.notified().await;
            continue;
        }
        let at = Arc::clone(&node);
        io::task::blocking(move || {
            for (block, generation_at_most) in batch {
                match at.volume.delete(block, generation_at_most) {
                    Ok(true) => at.changes.deleted(block),
                    Ok(false) => {}
                    Err(error) => tracing::error!(%block, %error, "a replica could not be deleted"),
                }
            }
        })
        .await;
        node.deleter.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_again_is_one_order() {
        let deleter = Deleter::default();
        for (block, generation) in [(2, 1005), (1, 1001), (2, 1003), (2, 1005)] {
            deleter.order(BlockId(block), Generation(generation));
        }
        assert_eq!(deleter.take(), [(BlockId(1), Generation(1001)), (BlockId(2), Generation(1005))]);
        deleter.done();
        assert_eq!(deleter.take(), []);
    }

    #[test]
    fn what_is_wanted_after_all_is_not_deleted() {
        let (deleter, block) = (Deleter::default(), BlockId(7));
        deleter.order(block, Generation(1002));
        assert!(deleter.is_ordered(block, Generation(1002)) && !deleter.is_ordered(block, Generation(1003)));
        deleter.withdraw(block);
        assert!(!deleter.is_ordered(block, Generation(1002)));
        deleter.order(block, Generation(1002));
        assert_eq!(deleter.take().len(), 1);
        deleter.withdraw(block);
        assert!(deleter.is_ordered(block, Generation(1002)), "too late: it is being deleted");
    }
}
