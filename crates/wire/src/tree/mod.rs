//! The hash tree over what a container holds: how members find where they differ without telling each other all.
//!
//! ```text
//! depth 0                root                 a sum over all leaves: how many, and 128 bits that know no order
//! depth 1      00    01   …   fe    ff        over those whose key begins with this byte
//! depth 2    0000 … 00ff  …  ff00 … ffff      with these two
//! leaves     block, generation, length, content
//! ```
//!
//! A leaf's key is its block's id, mixed, so that neighbours spread over all branches. Its *content* is a hash of the
//! stored checksums, so two replicas that agree with their own checksums and differ from each other have different
//! leaves. A node of the tree is a sum, since a container is a set; so a tree needs no more than its leaves, in the
//! order of their keys.
//!
//! What these functions give is part of the protocol: two nodes of two versions must come to the same.

mod hash_tree;
mod key;

pub use crate::proto::{Leaf, TreeNode, TreeRequest, TreeResponse, TreeSum};
pub use hash_tree::{HashTree, NoSuchNode};
use key::hash;
pub use key::key;
pub use types::tree::{ANEW_COUNT_MAX, DEPTH_MAX, FAN_OUT, LEAF_COUNT_MAX, TREE_NODE_COUNT_MAX};
use types::{BlockId, ChecksumSpec, Generation, TreeLeaf};

/// Metad → datanode, in [`crate::node::REPLICA_PROTOCOL`].
pub const TREE: &str = "tree";

impl TreeNode {
    pub const ROOT: Self = Self { depth: 0, path: 0 };

    pub fn branch(self, number: u32) -> Self {
        types::TreeNode { depth: self.depth, path: self.path }.branch(number).into()
    }

    /// Keys below it; `None` for a node that no tree has.
    pub fn keys(self) -> Option<std::ops::RangeInclusive<u64>> {
        if self.depth > DEPTH_MAX || u64::from(self.path) >= 1 << (8 * self.depth) {
            return None;
        }
        let bits = 64 - 8 * self.depth;
        let first = if self.depth == 0 { 0 } else { u64::from(self.path) << bits };
        Some(first..=first | (u64::MAX >> (8 * self.depth)))
    }
}

impl From<types::TreeNode> for TreeNode {
    fn from(types::TreeNode { depth, path }: types::TreeNode) -> Self {
        Self { depth, path }
    }
}

impl From<Leaf> for TreeLeaf {
    fn from(Leaf { block, generation, len, content }: Leaf) -> Self {
        Self { block: BlockId(block), generation: Generation(generation), len, content }
    }
}

impl TreeSum {
    pub fn add(&mut self, leaf: &Leaf) {
        let words = [leaf.block, leaf.generation, leaf.len, leaf.content];
        let (high, low) = (hash(1, words), hash(2, words));
        let sum =
            (u128::from(self.high) << 64 | u128::from(self.low)).wrapping_add(u128::from(high) << 64 | u128::from(low));
        (self.high, self.low) = ((sum >> 64) as u64, sum as u64);
        self.count += 1;
    }

    pub fn of<'a>(leaves: impl IntoIterator<Item = &'a Leaf>) -> Self {
        let mut sum = Self::default();
        leaves.into_iter().for_each(|leaf| sum.add(leaf));
        sum
    }
}

impl From<TreeSum> for types::TreeSum {
    fn from(TreeSum { count, high, low }: TreeSum) -> Self {
        Self { count, high, low }
    }
}

/// A hash of a replica's stored checksums, in the order of its chunks.
#[derive(Clone, Copy, Debug)]
pub struct Content(u64);

impl Content {
    pub const UNREADABLE: u64 = 0;

    pub fn new(spec: ChecksumSpec) -> Self {
        Self(hash(3, [spec.kind as u64, spec.chunk_len.into()]))
    }

    /// `sums`: some more of them, four bytes each.
    pub fn add(&mut self, sums: &[u8]) {
        let (sums, rest) = sums.as_chunks::<{ ChecksumSpec::SUM_LEN }>();
        assert!(rest.is_empty(), "checksums have four bytes");
        self.0 = hash(self.0, sums.iter().map(|sum| u64::from(u32::from_be_bytes(*sum))));
    }

    pub fn value(self) -> u64 {
        self.0.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(number: u64) -> Leaf {
        Leaf { block: number, generation: 1001, len: 10 * number, content: 7 }
    }

    #[test]
    fn sums_know_no_order_and_every_field() {
        let sum = |leaves: &[Leaf]| TreeSum::of(leaves);
        assert_eq!(sum(&[leaf(1), leaf(2), leaf(3)]), sum(&[leaf(3), leaf(1), leaf(2)]));
        for other in [
            Leaf { block: 2, ..leaf(1) },
            Leaf { generation: 1002, ..leaf(1) },
            Leaf { len: 11, ..leaf(1) },
            Leaf { content: 8, ..leaf(1) },
        ] {
            assert_ne!(sum(&[leaf(1)]), sum(&[other]));
        }
    }

    /// Nodes of two versions must agree.
    #[test]
    fn golden_sums() {
        let mut content = Content::new(ChecksumSpec::DEFAULT);
        content.add(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let mut in_two = Content::new(ChecksumSpec::DEFAULT);
        in_two.add(&[1, 2, 3, 4]);
        in_two.add(&[5, 6, 7, 8]);
        assert_eq!(content.value(), in_two.value());
        assert_eq!(content.value(), GOLDEN_CONTENT);
        assert_eq!(key(BlockId(5)), GOLDEN_KEY);
        let sum = TreeSum::of(&[leaf(1), leaf(2)]);
        assert_eq!((sum.count, sum.high, sum.low), (2, GOLDEN_SUM.0, GOLDEN_SUM.1));
    }

    const GOLDEN_CONTENT: u64 = 3_494_257_448_519_060_284;
    const GOLDEN_KEY: u64 = 1_635_312_068_028_924_514;
    const GOLDEN_SUM: (u64, u64) = (6_652_836_288_976_422_421, 10_805_414_296_621_738_942);

    #[test]
    fn branches_share_the_keys_of_their_node() {
        assert_eq!(TreeNode::ROOT.keys(), Some(0..=u64::MAX));
        let node = TreeNode::ROOT.branch(0xab).branch(0xcd);
        assert_eq!(node, TreeNode { depth: 2, path: 0xabcd });
        assert_eq!(node.keys(), Some(0xabcd << 48..=(0xabcd << 48 | 0xffff_ffff_ffff)));
        assert_eq!(TreeNode { depth: 3, path: 0 }.keys(), None);
        assert_eq!(TreeNode { depth: 1, path: 256 }.keys(), None);
        let last = TreeNode::ROOT.branch(0xff).keys().unwrap();
        assert_eq!(last, 0xff << 56..=u64::MAX);
    }
}
