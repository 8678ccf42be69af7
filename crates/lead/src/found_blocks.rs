//! Replicas of blocks that the rows do not know, from before they were restored from a backup: found blocks.
//!
//! Promise: none of them is ordered deleted. They are listed for the administrator, and learned anew from the catalogues
//! that datanodes send to each leader.

use crate::replica_fate::ReportedReplica;
use std::collections::BTreeMap;
use types::{BlockId, NodeId};

/// Replicas that are listed, of about a hundred bytes each. More are kept by their datanodes all the same, and counted.
const LISTED_COUNT_MAX: usize = 1_000_000;

/// The replicas of each block, by the nodes that have them.
#[derive(Debug, Default)]
pub struct FoundBlocks {
    of: BTreeMap<BlockId, BTreeMap<NodeId, ReportedReplica>>,
    /// Replicas listed.
    count: usize,
    /// Reports that found no room.
    passed_over: u64,
}

impl FoundBlocks {
    pub(crate) fn keep(&mut self, node: NodeId, reported: ReportedReplica) {
        let is_listed = self.of.get(&reported.block).is_some_and(|nodes| nodes.contains_key(&node));
        if !is_listed && self.count >= LISTED_COUNT_MAX {
            self.passed_over += 1;
            return;
        }
        if self.of.entry(reported.block).or_default().insert(node, reported).is_none() {
            self.count += 1;
        }
    }

    /// The node has it no more, or it has an owner by now.
    pub(crate) fn forget(&mut self, node: NodeId, block: BlockId) {
        let Some(nodes) = self.of.get_mut(&block) else { return };
        if nodes.remove(&node).is_some() {
            self.count -= 1;
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

    pub fn block_count(&self) -> usize {
        self.of.len()
    }

    /// Reports that are not listed, as there were too many.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The limit, and that nothing is listed for nothing. Looks at everything.
    pub fn check(&self) {
        let count: usize = self.of.values().map(BTreeMap::len).sum();
        assert_eq!(count, self.count, "the replicas of found blocks");
        assert!(count <= LISTED_COUNT_MAX, "{count} replicas of found blocks are listed");
        assert!(self.of.values().all(|nodes| !nodes.is_empty()), "a found block has a replica");
    }
}
