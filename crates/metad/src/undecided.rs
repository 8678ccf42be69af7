//! Replicas that nodes told of while their blocks were still written, when nobody can say yet whether they are wanted.
//!
//! A node tells of a replica once: when it was put, or some seconds after its chain broke off. The block may be completed
//! much later, and by other nodes: a chain that was mended without this one, a recovery it took no part in. So what was told
//! is kept, and judged again with each heartbeat. If it is lost, by a restart or because there is too much, the node's next
//! catalogue tells it again.

use std::collections::BTreeMap;
use types::NodeId;
use wire::node::Replica;

/// Replicas kept of one node; each takes about a hundred bytes.
const KEPT_COUNT_MAX: usize = 2000;

#[derive(Debug, Default)]
pub(crate) struct Undecided {
    of: BTreeMap<NodeId, BTreeMap<u64, Replica>>,
}

impl Undecided {
    pub(crate) fn keep(&mut self, node: NodeId, replica: Replica) {
        let kept = self.of.entry(node).or_default();
        if kept.len() < KEPT_COUNT_MAX || kept.contains_key(&replica.block) {
            kept.insert(replica.block, replica);
        }
    }

    /// All that `node` told; what is still undecided is to be kept again.
    pub(crate) fn take(&mut self, node: NodeId) -> Vec<Replica> {
        self.of.remove(&node).unwrap_or_default().into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_a_block_counts_and_there_is_a_bound() {
        let (one, other) = (NodeId([1; 16]), NodeId([2; 16]));
        let replica = |block, generation| Replica { block, generation, ..Replica::default() };
        let mut undecided = Undecided::default();
        undecided.keep(one, replica(5, 1001));
        undecided.keep(one, replica(5, 1002));
        undecided.keep(other, replica(5, 1001));
        assert_eq!(undecided.take(one), [replica(5, 1002)]);
        assert_eq!(undecided.take(one), []);
        for block in 0..2 * KEPT_COUNT_MAX as u64 {
            undecided.keep(one, replica(block, 1001));
        }
        undecided.keep(one, replica(3, 1009));
        let kept = undecided.take(one);
        assert_eq!((kept.len(), kept[3]), (KEPT_COUNT_MAX, replica(3, 1009)));
    }
}
