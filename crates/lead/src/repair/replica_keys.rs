//! Ranges of keys that name a replica.

use std::ops::RangeInclusive;
use types::{BlockId, NodeId};

/// Keys of a block's replicas, on whatever node.
pub(super) fn all_of(block: BlockId) -> RangeInclusive<(BlockId, NodeId)> {
    (block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))
}

/// Keys of a node's replicas, of whatever block.
pub(super) fn of_node(node: NodeId) -> RangeInclusive<(NodeId, BlockId)> {
    (node, BlockId(0))..=(node, BlockId(u64::MAX))
}
