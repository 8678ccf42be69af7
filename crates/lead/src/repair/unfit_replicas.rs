//! Replicas that their nodes cannot serve: damaged ones, and ones that members lack.
//!
//! Promise: for each node a bounded number of damaged replicas is remembered. So one bad disk does not displace what is
//! known of other nodes; the rest is reported again by the next scrub. A damaged replica that is the last of its block
//! is verified again with growing pauses.

use super::replica_keys::all_of;
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, NodeId};

const DAMAGED_COUNT_MAX: usize = 100_000;
/// Of one node: a disk with more of them is to be replaced.
const DAMAGED_OF_NODE_COUNT_MAX: u64 = 10_000;
/// A damaged replica of a block that has no other copy is read again, first and last: doubling.
const AGAIN_FIRST: Duration = Duration::from_secs(20);
const AGAIN_LAST: Duration = Duration::from_secs(3600);
/// With more, those beyond count as present until they are compared again.
const ABSENT_COUNT_MAX: usize = 100_000;

#[derive(Debug)]
struct Damage {
    /// The generation that was read. A recovery may cut off the damaged part: a later generation may be sound.
    generation: Generation,
    /// When it is read again, if it is the last of its block.
    at: Option<Duration>,
    pause: Duration,
}

#[derive(Debug, Default)]
pub(super) struct UnfitReplicas {
    /// Found damaged, and not replaced yet.
    damaged: BTreeMap<(BlockId, NodeId), Damage>,
    damaged_count_of: Tally<NodeId>,
    /// Members reported that they do not have these, or not fit to be read, and have not reported otherwise since. They
    /// are kept while no copy can be made, too.
    absent: BTreeMap<(BlockId, NodeId), ContainerId>,
}

impl UnfitReplicas {
    /// A replica was found damaged at this generation. True: that is news.
    pub(super) fn on_damaged(&mut self, block: BlockId, node: NodeId, generation: Generation) -> bool {
        let is_full =
            self.damaged.len() >= DAMAGED_COUNT_MAX || self.damaged_count_of.get(node) >= DAMAGED_OF_NODE_COUNT_MAX;
        if self.is_damaged(block, node, generation) || is_full && !self.damaged.contains_key(&(block, node)) {
            return false;
        }
        let damage = Damage { generation, at: None, pause: Duration::ZERO };
        if self.damaged.insert((block, node), damage).is_none() {
            self.damaged_count_of.add(node, 1);
        }
        true
    }

    /// True: it was known to be damaged.
    pub(super) fn forget_damaged(&mut self, block: BlockId, node: NodeId) -> bool {
        let was_damaged = self.damaged.remove(&(block, node)).is_some();
        if was_damaged {
            self.damaged_count_of.take(node, 1);
        }
        was_damaged
    }

    /// Whether the replica is known to be damaged at `wanted`, or at a later generation.
    pub(super) fn is_damaged(&self, block: BlockId, node: NodeId, wanted: Generation) -> bool {
        self.damaged.get(&(block, node)).is_some_and(|damage| damage.generation >= wanted)
    }

    pub(super) fn damaged(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.damaged.keys().copied()
    }

    pub(super) fn damaged_count(&self) -> usize {
        self.damaged.len()
    }

    pub(super) fn damaged_of(&self, node: NodeId) -> Vec<BlockId> {
        if !self.damaged_count_of.has(node) {
            return Vec::new();
        }
        self.damaged.keys().filter(|(_, of)| *of == node).map(|(block, _)| *block).collect()
    }

    /// A damaged replica of one of the `missing` blocks, on a node that is `free`, that is to be read again now.
    pub(super) fn take_again(
        &mut self,
        missing: impl Iterator<Item = BlockId>,
        now: Duration,
        free: impl Fn(NodeId) -> bool,
    ) -> Option<(BlockId, NodeId)> {
        if self.damaged.is_empty() {
            return None;
        }
        for block in missing {
            for (key, damage) in self.damaged.range_mut(all_of(block)) {
                let at = *damage.at.get_or_insert(now + AGAIN_FIRST);
                if at <= now && free(key.1) {
                    damage.pause = (damage.pause * 2).clamp(AGAIN_FIRST, AGAIN_LAST);
                    damage.at = Some(now + damage.pause);
                    return Some(*key);
                }
            }
        }
        None
    }

    /// A member reported that it does not have a block of `home`.
    pub(super) fn on_absent(&mut self, block: BlockId, node: NodeId, home: ContainerId) {
        if self.absent.len() < ABSENT_COUNT_MAX {
            self.absent.insert((block, node), home);
        }
    }

    pub(super) fn absent(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.absent.keys().copied()
    }

    /// Nodes that lack the block.
    pub(super) fn absent_of(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        self.absent.range(all_of(block)).map(|((_, node), _)| *node)
    }

    /// The node has the replica, and it can be read.
    pub(super) fn on_fit(&mut self, block: BlockId, node: NodeId) {
        self.absent.remove(&(block, node));
        self.forget_damaged(block, node);
    }

    /// No file has the block any more.
    pub(super) fn forget_block(&mut self, block: BlockId) {
        for ((_, node), _) in self.damaged.extract_if(all_of(block), |_, _| true) {
            self.damaged_count_of.take(node, 1);
        }
        self.absent.extract_if(all_of(block), |_, _| true).for_each(drop);
    }

    /// `node` is no member of these containers any more.
    pub(super) fn on_left(&mut self, node: NodeId, has_left: impl Fn(ContainerId) -> bool) {
        self.absent.retain(|(_, of), home| *of != node || !has_left(*home));
    }

    pub(super) fn check(&self) {
        let recount = self.damaged.keys().map(|(_, node)| (*node, 1));
        assert_eq!(self.damaged_count_of, Tally::from_iter(recount), "damaged replicas of each node");
        assert!(self.damaged.len() <= DAMAGED_COUNT_MAX, "{} damaged replicas are remembered", self.damaged.len());
        for (_, node) in self.damaged.keys() {
            let count = self.damaged_count_of.get(*node);
            assert!(count <= DAMAGED_OF_NODE_COUNT_MAX, "{count} damaged replicas of {node} are remembered");
        }
        for ((block, node), damage) in &self.damaged {
            let is_bounded = damage.pause.is_zero() || (AGAIN_FIRST..=AGAIN_LAST).contains(&damage.pause);
            assert!(is_bounded, "{block} on {node} is read again after {:?}", damage.pause);
        }
        assert!(self.absent.len() <= ABSENT_COUNT_MAX, "{} absent replicas are remembered", self.absent.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: ContainerId = ContainerId(1);
    const GENERATION: Generation = Generation(5);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    #[test]
    fn damage_counts_up_to_the_generation_that_was_read() {
        let mut unfit = UnfitReplicas::default();
        assert!(unfit.on_damaged(block(1), node(1), GENERATION));
        assert!(!unfit.on_damaged(block(1), node(1), GENERATION), "it is known");
        assert!(unfit.on_damaged(block(1), node(1), Generation(6)), "of a later generation it was not");
        assert!(unfit.is_damaged(block(1), node(1), GENERATION) && !unfit.is_damaged(block(1), node(1), Generation(7)));
        unfit.on_damaged(block(2), node(1), GENERATION);
        unfit.check();
        assert_eq!((unfit.damaged_of(node(1)), unfit.damaged_of(node(2))), (vec![block(1), block(2)], vec![]));
        assert!(unfit.forget_damaged(block(1), node(1)) && !unfit.forget_damaged(block(1), node(1)));
        unfit.on_fit(block(2), node(1));
        unfit.check();
        assert_eq!(unfit.damaged_count(), 0);
    }

    #[test]
    fn one_disk_does_not_displace_what_is_known_of_others() {
        let mut unfit = UnfitReplicas::default();
        let count = DAMAGED_OF_NODE_COUNT_MAX as u32;
        let of_one = (0..count + 10).filter(|index| unfit.on_damaged(block(*index), node(1), GENERATION)).count();
        assert_eq!(of_one, count as usize);
        unfit.check();
        assert!(unfit.on_damaged(block(0), node(2), GENERATION));
        assert!(unfit.on_damaged(block(0), node(1), Generation(6)), "one that is remembered already");
        unfit.check();
    }

    #[test]
    fn the_last_copy_of_a_block_is_read_again_later_and_later() {
        let (mut unfit, at) = (UnfitReplicas::default(), Duration::from_secs);
        unfit.on_damaged(block(1), node(1), GENERATION);
        let mut reads = Vec::new();
        for second in 0..20_000 {
            let taken = unfit.take_again([block(1), block(2)].into_iter(), at(second), |_| true);
            reads.extend(taken.map(|_| second));
        }
        unfit.check();
        let pauses: Vec<u64> = reads.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((reads[0], &pauses[..3]), (20, &[20, 40, 80][..]));
        assert_eq!(pauses.last(), Some(&3600));
        assert_eq!(unfit.take_again([block(1)].into_iter(), at(90_000), |_| false), None, "its node is busy");
        assert_eq!(unfit.take_again([block(2)].into_iter(), at(90_000), |_| true), None, "others have the block");
    }

    #[test]
    fn what_a_node_lacks_is_forgotten_with_its_membership_or_the_block() {
        let mut unfit = UnfitReplicas::default();
        for (index, number) in [(1, 1), (1, 2), (2, 1)] {
            unfit.on_absent(block(index), node(number), HOME);
        }
        unfit.on_absent(block(3), node(1), ContainerId(2));
        unfit.on_damaged(block(2), node(2), GENERATION);
        unfit.on_left(node(1), |home| home == HOME);
        assert_eq!(unfit.absent_of(block(1)).collect::<Vec<_>>(), [node(2)]);
        assert_eq!(unfit.absent().count(), 2);
        unfit.forget_block(block(1));
        unfit.forget_block(block(2));
        assert_eq!((unfit.absent().collect::<Vec<_>>(), unfit.damaged_count()), (vec![(block(3), node(1))], 0));
        unfit.check();
    }
}
