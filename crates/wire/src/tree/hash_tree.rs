//! The hash tree of one container: its leaves in the order of their keys. Sums are made of them when they are asked
//! for.

use super::key::key;
use crate::proto::{Leaf, TreeNode, TreeRequest, TreeResponse, TreeSum};
use thiserror::Error;
use types::BlockId;
use types::tree::{FAN_OUT, LEAF_COUNT_MAX};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashTree {
    leaves: Vec<(u64, Leaf)>,
    root: TreeSum,
}

/// Below the last depth are leaves, and a path has as many bytes as its depth says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no tree has branches at depth {depth}, path {path}")]
pub struct NoSuchNode {
    depth: u32,
    path: u32,
}

impl HashTree {
    pub fn new(leaves: impl IntoIterator<Item = Leaf>) -> Self {
        let mut leaves: Vec<(u64, Leaf)> = leaves.into_iter().map(|leaf| (key(BlockId(leaf.block)), leaf)).collect();
        leaves.sort_unstable_by_key(|(key, leaf)| (*key, leaf.block));
        let root = TreeSum::of(leaves.iter().map(|(_, leaf)| leaf));
        Self { leaves, root }
    }

    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    pub fn root(&self) -> TreeSum {
        self.root
    }

    pub fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves.iter().map(|(_, leaf)| leaf)
    }

    pub fn leaf(&self, block: BlockId) -> Option<&Leaf> {
        let wanted = (key(block), block.0);
        let found = self.leaves.binary_search_by_key(&wanted, |(key, leaf)| (*key, leaf.block));
        found.ok().map(|at| &self.leaves[at].1)
    }

    /// `None` for a node that no tree has.
    fn below(&self, node: TreeNode) -> Option<&[(u64, Leaf)]> {
        let keys = node.keys()?;
        let first = self.leaves.partition_point(|(key, _)| key < keys.start());
        let end = self.leaves.partition_point(|(key, _)| key <= keys.end());
        Some(&self.leaves[first..end])
    }

    /// What a member is answered: the root, and what there is below the nodes that the request names.
    pub fn answer(&self, request: &TreeRequest) -> Result<TreeResponse, NoSuchNode> {
        let mut answer = TreeResponse { root: Some(self.root), ..TreeResponse::default() };
        for node in &request.nodes {
            let found = if request.leaves {
                self.leaves_of(*node, &mut answer.leaves)
            } else {
                self.branches(*node, &mut answer.branches)
            };
            found.ok_or(NoSuchNode { depth: node.depth, path: node.path })?;
        }
        Ok(answer)
    }

    /// Appends the sums of a node's branches, of which there are none below the last depth.
    fn branches(&self, node: TreeNode, sums: &mut Vec<TreeSum>) -> Option<()> {
        for number in 0..FAN_OUT as u32 {
            let below = self.below(node.branch(number))?;
            sums.push(TreeSum::of(below.iter().map(|(_, leaf)| leaf)));
        }
        Some(())
    }

    /// Appends what is below a node, as far as it has room in one answer.
    fn leaves_of(&self, node: TreeNode, leaves: &mut Vec<Leaf>) -> Option<()> {
        let room = LEAF_COUNT_MAX.saturating_sub(leaves.len());
        leaves.extend(self.below(node)?.iter().take(room).map(|(_, leaf)| *leaf));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_depth_sums_up_to_the_root() {
        let leaf = |number: u64| Leaf { block: number * 7 + 3, generation: 1001, len: number, content: number ^ 9 };
        let tree = HashTree::new((0..5000).map(leaf));
        let mut first = Vec::new();
        tree.branches(TreeNode::ROOT, &mut first).unwrap();
        assert_eq!(first.len(), FAN_OUT);
        assert_eq!(first.iter().map(|sum| sum.count).sum::<u64>(), 5000);
        let crowded = (0..FAN_OUT as u32).max_by_key(|number| first[*number as usize].count).unwrap();
        let node = TreeNode::ROOT.branch(crowded);
        let mut second = Vec::new();
        tree.branches(node, &mut second).unwrap();
        let mut leaves = Vec::new();
        tree.leaves_of(node, &mut leaves).unwrap();
        assert_eq!(TreeSum::of(&leaves), first[crowded as usize]);
        assert_eq!(second.iter().map(|sum| sum.count).sum::<u64>(), leaves.len() as u64);
        assert!(tree.branches(node.branch(0), &mut second).is_none(), "there are leaves below");
        assert_eq!(tree.leaf(BlockId(17 * 7 + 3)), Some(&leaf(17)));
        assert_eq!(tree.leaf(BlockId(4)), None);
        let mut all = Vec::new();
        tree.leaves_of(TreeNode::ROOT, &mut all).unwrap();
        assert_eq!(all.len(), LEAF_COUNT_MAX);
    }
}
