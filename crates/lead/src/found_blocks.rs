//! Replicas of blocks that the rows do not know, from before they were restored from a backup: found blocks.
//!
//! Promise: none of them is ordered deleted, and no node is drained that alone has one. They are listed for the
//! administrator, and learned anew from the catalogues that datanodes send to each leader.

use crate::found_reports::FoundReports;
use crate::replica_fate::ReportedReplica;
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, NodeId};

/// Replicas that are listed, of about a hundred bytes each. More are kept by their datanodes all the same, and counted.
const LISTED_COUNT_MAX: usize = 1_000_000;

/// The replicas of each block, by the nodes that have them.
#[derive(Debug, Default)]
pub struct FoundBlocks {
    of: BTreeMap<BlockId, BTreeMap<NodeId, ReportedReplica>>,
    /// The blocks of each node, with the number of the catalogue that was under way, or had ended, when it named them
    /// last.
    on: BTreeMap<NodeId, BTreeMap<BlockId, u64>>,
    /// Replicas listed.
    count: usize,
    /// What the list may lack.
    pub(crate) reports: FoundReports,
}

impl FoundBlocks {
    pub(crate) fn keep(&mut self, node: NodeId, reported: ReportedReplica) {
        let is_listed = self.of.get(&reported.block).is_some_and(|nodes| nodes.contains_key(&node));
        if !is_listed && self.count >= LISTED_COUNT_MAX {
            self.reports.on_passed_over(node);
            return;
        }
        self.on.entry(node).or_default().insert(reported.block, self.reports.catalogue_number(node));
        if self.of.entry(reported.block).or_default().insert(node, reported).is_none() {
            self.count += 1;
        }
    }

    /// Replicas of `node` that are not in the catalogue which it has completed do not exist any more: a disk failed.
    pub(crate) fn on_catalogue_complete(&mut self, node: NodeId) {
        if !self.reports.on_catalogue_complete(node) {
            return;
        }
        let number = self.reports.catalogue_number(node);
        let is_old = |(block, named_in): (&BlockId, &u64)| (*named_in < number).then_some(*block);
        let gone: Vec<BlockId> = self.on.get(&node).into_iter().flatten().filter_map(is_old).collect();
        gone.into_iter().for_each(|block| self.forget(node, block));
    }

    /// The node has it no more, or it has an owner by now.
    pub(crate) fn forget(&mut self, node: NodeId, block: BlockId) {
        let Some(nodes) = self.of.get_mut(&block) else { return };
        if nodes.remove(&node).is_some() {
            self.count -= 1;
            if let Some(on_node) = self.on.get_mut(&node) {
                on_node.remove(&block);
                if on_node.is_empty() {
                    self.on.remove(&node);
                }
            }
        }
        if nodes.is_empty() {
            self.of.remove(&block);
        }
    }

    /// Blocks behind `after`, with their replicas.
    pub fn behind(&self, after: BlockId) -> impl Iterator<Item = (BlockId, &BTreeMap<NodeId, ReportedReplica>)> {
        let from = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.of.range(from).map(|(block, nodes)| (*block, nodes))
    }

    /// Of the blocks that `node` has those that it alone has, or in the best state, of all for which `stays` holds and
    /// that have reported all they have; and replicas of it that are not listed. At most `count_max` are counted.
    pub(crate) fn lone_count(&self, node: NodeId, count_max: usize, stays: impl Fn(NodeId) -> bool) -> usize {
        // One that was started anew may have come back without the disk that had it.
        let has_it = |other: NodeId| other != node && self.reports.is_complete(other) && stays(other);
        let is_lone = |block: &&BlockId| {
            let Some(nodes) = self.of.get(block) else { return false };
            let Some(ours) = nodes.get(&node) else { return false };
            !nodes.iter().any(|(other, replica)| covers(replica, ours) && has_it(*other))
        };
        let lone = self.on.get(&node).into_iter().flat_map(BTreeMap::keys).filter(is_lone).take(count_max).count();
        let passed_over = usize::try_from(self.reports.passed_over_of(node)).unwrap_or(usize::MAX);
        lone.saturating_add(passed_over).min(count_max)
    }

    /// Of one of them.
    pub fn replicas(&self, block: BlockId) -> Option<&BTreeMap<NodeId, ReportedReplica>> {
        self.of.get(&block)
    }

    pub fn block_count(&self) -> usize {
        self.of.len()
    }

    /// Replicas that are not listed, as there were too many.
    pub fn passed_over(&self) -> u64 {
        self.reports.passed_over()
    }

    /// None is a found block any more.
    pub(crate) fn release(&mut self) {
        (self.of, self.on, self.count) = (BTreeMap::new(), BTreeMap::new(), 0);
        self.reports.on_released();
    }

    /// The limit, and that nothing is listed for nothing. Looks at everything.
    pub fn check(&self) {
        self.reports.check();
        let count: usize = self.of.values().map(BTreeMap::len).sum();
        assert_eq!(count, self.count, "the replicas of found blocks");
        assert!(count <= LISTED_COUNT_MAX, "{count} replicas of found blocks are listed");
        assert!(self.of.values().all(|nodes| !nodes.is_empty()), "a found block has a replica");
        let pairs = self.of.iter().flat_map(|(block, nodes)| nodes.keys().map(|node| (*node, *block)));
        let mut on: BTreeMap<NodeId, BTreeSet<BlockId>> = BTreeMap::new();
        pairs.for_each(|(node, block)| _ = on.entry(node).or_default().insert(block));
        let listed: BTreeMap<NodeId, BTreeSet<BlockId>> =
            self.on.iter().map(|(node, blocks)| (*node, blocks.keys().copied().collect())).collect();
        assert_eq!(on, listed, "the found blocks of each node");
    }
}

/// Whether all that was acknowledged of `ours` is in `other`. A generation rises with each recovery and each append: a
/// whole replica of an older one lacks what was acknowledged since (the list ranks them alike).
fn covers(other: &ReportedReplica, ours: &ReportedReplica) -> bool {
    if other.generation != ours.generation {
        return other.generation > ours.generation;
    }
    other.len >= ours.len && (other.finalized || !ours.finalized)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ContainerId, Generation};

    const HERE: NodeId = NodeId([1; 16]);
    const THERE: NodeId = NodeId([2; 16]);

    fn replica((generation, finalized, len): (u64, bool, u64)) -> ReportedReplica {
        let (block, generation) = (BlockId::new(ContainerId(1), 7), Generation(generation));
        ReportedReplica { block, generation, len, file: None, home: None, finalized }
    }

    /// Of a block that was appended to, a node has what was flushed since, and another one only what was put before.
    #[test]
    fn a_whole_replica_of_an_older_generation_is_no_copy_of_a_newer_one() {
        let (flushed, whole) = ((11, false, 800), (11, true, 800));
        for (ours, theirs, is_lone) in [
            (flushed, (10, true, 500), true),
            (flushed, (10, true, 900), true),
            (flushed, (11, false, 799), true),
            (flushed, flushed, false),
            (flushed, whole, false),
            (flushed, (12, false, 700), false),
            (whole, flushed, true),
            (whole, (11, false, 900), true),
            (whole, whole, false),
            ((10, true, 500), flushed, false),
        ] {
            let mut found = FoundBlocks::default();
            found.keep(HERE, replica(ours));
            found.reports.on_catalogue_begun(THERE);
            found.keep(THERE, replica(theirs));
            found.on_catalogue_complete(THERE);
            found.check();
            let count = |there_stays| found.lone_count(HERE, 10, |other| other == THERE && there_stays);
            assert_eq!((count(true), count(false)), (usize::from(is_lone), 1), "{ours:?} here, {theirs:?} there");
        }
    }
}
