//! Nodes that writers were given beside those of their block (HDFS: getAdditionalDatanode), until they say that they write to them.
//!
//! Promise: a writer goes on with nodes that hold the block's container, or that it was given for this block; so no client makes up
//! sets of nodes, each of which would be a row for ever. A leader that is younger than ten minutes cannot know what the one before
//! it gave, and believes every writer.

use std::collections::BTreeMap;
use std::time::Duration;
use types::{BlockId, NodeId};

/// A writer copies the block there first, and then says so. A guess: the copy of a large block over a busy network.
const KEPT: Duration = Duration::from_secs(600);
/// Blocks remembered; beyond that the oldest are forgotten.
const COUNT_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Additional {
    /// When this leader began.
    since: Duration,
    given: BTreeMap<BlockId, (Duration, Vec<NodeId>)>,
}

impl Additional {
    pub fn new(now: Duration) -> Self {
        Self { since: now, given: BTreeMap::new() }
    }

    /// `nodes` were given to the writer of `block`.
    pub fn give(&mut self, block: BlockId, nodes: &[NodeId], now: Duration) {
        if self.given.len() >= COUNT_MAX && !self.given.contains_key(&block) {
            self.given.retain(|_, (at, _)| now.saturating_sub(*at) <= KEPT);
        }
        if self.given.len() >= COUNT_MAX && !self.given.contains_key(&block) {
            let oldest = self.given.iter().min_by_key(|(_, (at, _))| *at).map(|(block, _)| *block);
            oldest.and_then(|oldest| self.given.remove(&oldest));
        }
        let entry = self.given.entry(block).or_default();
        entry.0 = now;
        entry.1.extend(nodes);
        entry.1.sort_unstable();
        entry.1.dedup();
    }

    /// Whether a node that is no member of its container may have been given to the writer of `block`.
    pub fn may_be_given(&self, block: BlockId, node: NodeId, now: Duration) -> bool {
        let is_given = |(at, nodes): &(Duration, Vec<NodeId>)| {
            now.saturating_sub(*at) <= KEPT && nodes.binary_search(&node).is_ok()
        };
        now.saturating_sub(self.since) <= KEPT || self.given.get(&block).is_some_and(is_given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_goes_on_with_what_it_was_given() {
        let node = |number: u8| NodeId([number; 16]);
        let (block, second) = (BlockId(1), Duration::from_secs(1));
        let mut additional = Additional::new(second);
        assert!(additional.may_be_given(block, node(9), second + KEPT), "a leader before may have given it");
        let now = second * 2 + KEPT;
        assert!(!additional.may_be_given(block, node(9), now));
        additional.give(block, &[node(9)], now);
        additional.give(block, &[node(8)], now);
        assert!(additional.may_be_given(block, node(9), now + KEPT) && additional.may_be_given(block, node(8), now));
        assert!(!additional.may_be_given(BlockId(2), node(9), now) && !additional.may_be_given(block, node(7), now));
        assert!(!additional.may_be_given(block, node(9), now + KEPT + second));
        (0..2 * COUNT_MAX as u64).for_each(|block| additional.give(BlockId(block), &[node(1)], now));
        assert!(additional.given.len() <= COUNT_MAX);
    }
}
