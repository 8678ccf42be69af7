//! The hash tree by which members of a container are compared: its sums, its nodes, and what one question may ask for.
//! How sums are made is part of the protocol between nodes (`wire::tree`).

use crate::id::{BlockId, Generation};

/// Branches of a node.
pub const FAN_OUT: usize = 256;
/// The last depth at which there are sums.
pub const DEPTH_MAX: u32 = 2;
/// Nodes of the tree in one question.
pub const TREE_NODE_COUNT_MAX: usize = 16;
/// Leaves in one answer.
pub const LEAF_COUNT_MAX: usize = 4096;
/// Replicas in one question whose checksums are to be read anew.
pub const ANEW_COUNT_MAX: usize = 64;

/// How many leaves, and 128 bits that know no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSum {
    pub count: u64,
    pub high: u64,
    pub low: u64,
}

/// A node of the tree by its place: the first `depth` bytes of the keys below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode {
    pub depth: u32,
    pub path: u32,
}

impl TreeNode {
    pub const ROOT: Self = Self { depth: 0, path: 0 };

    pub fn branch(self, number: u32) -> Self {
        Self { depth: self.depth + 1, path: self.path << 8 | number }
    }
}

/// A replica as the tree knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLeaf {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    /// A hash of its stored checksums.
    pub content: u64,
}
