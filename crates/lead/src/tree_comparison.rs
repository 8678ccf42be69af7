//! Comparison of a sealed container's members by the bytes of their replicas: by hash trees, down to the differences.
//!
//! ```text
//! sealed, whole ──▶ the roots of all members ──same──▶ again in an hour
//!                        └ differ: branches that differ ──▶ leaves that differ
//!                            ├ one lacks it, or has another generation or length ──▶ compared as a single block
//!                            └ other checksums ──▶ rebuilt from the disks ──▶ each member verifies its own replica
//!                                 ├ one fails its own checksums ──▶ damaged, replaced by the others'
//!                                 └ all verify, and differ ──▶ contradictory: named, and not changed
//! ```
//!
//! The cost of the answers grows with the differences of two members, not with what they hold. A replica is deleted or
//! replaced only for failing its own checksums, never for differing. The caller asks what [`TreeStep`] says and passes
//! the answers in. The comparison ends after a bounded number of questions.

use crate::hash_tree_queue::TreeOutcome;
use crate::leader::Leader;
use namespace::BlockView;
use std::collections::{BTreeMap, VecDeque};
use types::tree::{ANEW_COUNT_MAX, DEPTH_MAX, FAN_OUT, LEAF_COUNT_MAX, TREE_NODE_COUNT_MAX};
use types::{BlockId, ContainerId, Fitness, Generation, NodeId, TreeLeaf, TreeNode, TreeSum};

/// With fewer leaves below a node of the tree they are asked for at once.
const LEAVES_AT_ONCE: u64 = 256;
/// Questions about branches in one comparison. What is not found by then is found by the next.
const QUESTION_COUNT_MAX: usize = 64;
/// Blocks that differ, in one comparison.
const DIFFERENCE_COUNT_MAX: usize = 1000;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeStep {
    /// Every member is asked this.
    Ask(TreeQuestion),
    /// What the rows have of these blocks.
    LookUp(Vec<BlockId>),
    /// Every member reads its replica from end to end.
    Verify {
        block: BlockId,
        generation: Generation,
        len: u64,
    },
    End(TreeOutcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeQuestion {
    Root,
    Branches(Vec<TreeNode>),
    Leaves(Vec<TreeNode>),
    /// Leaves made from the disk, whatever is remembered.
    Anew(Vec<BlockId>),
}

/// What a member answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeAnswer {
    /// `None`: it makes its tree.
    pub root: Option<TreeSum>,
    /// Of each node that was named, from the first to the last.
    pub branches: Vec<TreeSum>,
    pub leaves: Vec<TreeLeaf>,
}

/// What verifying came to, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeFinding {
    /// Members whose replica fails its own checksums.
    pub damaged: Vec<NodeId>,
    /// All verify, and differ, which is news: members by what they hold.
    pub contradiction: Vec<Vec<NodeId>>,
}

/// What each member has of a block, in the order of the members.
type Row = Vec<Option<TreeLeaf>>;
type Rows = BTreeMap<BlockId, Row>;

#[derive(Debug)]
pub struct TreeComparison {
    home: ContainerId,
    members: Vec<NodeId>,
    stage: Stage,
    /// All that was found to differ are contradictions.
    contradictions_only: bool,
}

#[derive(Debug)]
enum Stage {
    Roots,
    Branches {
        /// Nodes that differ, with how many leaves are below each at most.
        open: Vec<(TreeNode, u64)>,
        asked: Vec<TreeNode>,
        small: Vec<(TreeNode, u64)>,
        question_count: usize,
    },
    Leaves {
        small: VecDeque<(TreeNode, u64)>,
        rows: Rows,
    },
    LookUp(Rows),
    Anew(Vec<BlockId>),
    Verify(Rows),
    End(TreeOutcome),
}

impl TreeComparison {
    pub fn new(home: ContainerId, members: Vec<NodeId>) -> Self {
        Self { home, members, stage: Stage::Roots, contradictions_only: true }
    }

    pub fn step(&mut self) -> TreeStep {
        match &mut self.stage {
            Stage::Roots => TreeStep::Ask(TreeQuestion::Root),
            Stage::Branches { open, asked, small, question_count } => {
                let (few, many): (Vec<_>, Vec<_>) =
                    open.drain(..).partition(|(node, count)| *count <= LEAVES_AT_ONCE || node.depth >= DEPTH_MAX);
                small.extend(few);
                *open = many;
                if open.is_empty() || *question_count == QUESTION_COUNT_MAX {
                    self.stage = Stage::Leaves { small: std::mem::take(small).into(), rows: Rows::new() };
                    return self.step();
                }
                *question_count += 1;
                *asked = open.drain(..open.len().min(TREE_NODE_COUNT_MAX)).map(|(node, _)| node).collect();
                TreeStep::Ask(TreeQuestion::Branches(asked.clone()))
            }
            Stage::Leaves { small, rows } => {
                let (mut nodes, mut room) = (Vec::new(), LEAF_COUNT_MAX as u64);
                while nodes.len() < TREE_NODE_COUNT_MAX
                    && rows.len() < DIFFERENCE_COUNT_MAX
                    && let Some((node, count)) = small.front().copied()
                    && (nodes.is_empty() || count <= room)
                {
                    small.pop_front();
                    nodes.push(node);
                    room = room.saturating_sub(count);
                }
                if nodes.is_empty() {
                    self.stage = Stage::LookUp(std::mem::take(rows));
                    return self.step();
                }
                TreeStep::Ask(TreeQuestion::Leaves(nodes))
            }
            Stage::LookUp(rows) => TreeStep::LookUp(rows.keys().copied().collect()),
            Stage::Anew(suspects) => TreeStep::Ask(TreeQuestion::Anew(suspects.clone())),
            Stage::Verify(rows) => match rows.first_key_value().and_then(|(_, row)| row.iter().flatten().next()) {
                Some(TreeLeaf { block, generation, len, .. }) => {
                    TreeStep::Verify { block: *block, generation: *generation, len: *len }
                }
                None => TreeStep::End(TreeOutcome::Differ { contradictions_only: self.contradictions_only }),
            },
            Stage::End(outcome) => TreeStep::End(*outcome),
        }
    }

    /// The answers of all members, in their order; `None` if one is missing.
    pub fn on_answers(&mut self, answers: Option<Vec<TreeAnswer>>) {
        let Some(answers) = answers else {
            self.stage = Stage::End(TreeOutcome::Later);
            return;
        };
        assert_eq!(answers.len(), self.members.len(), "an answer of each member of {}", self.home);
        match &mut self.stage {
            Stage::Roots => self.on_roots(&answers),
            Stage::Branches { open, asked, .. } => {
                if answers.iter().any(|answer| answer.branches.len() != asked.len() * FAN_OUT) {
                    self.stage = Stage::End(TreeOutcome::Later);
                } else {
                    open.extend(differing_branches(asked, &answers));
                }
            }
            Stage::Leaves { rows, .. } => rows.extend(differing_leaves(&answers)),
            Stage::Anew(_) => {
                let (alike, other): (Rows, Rows) =
                    differing_leaves(&answers).into_iter().partition(|(_, row)| is_held_alike(row));
                self.contradictions_only &= other.is_empty();
                self.stage = Stage::Verify(alike);
            }
            Stage::LookUp(_) | Stage::Verify(_) | Stage::End(_) => {}
        }
    }

    fn on_roots(&mut self, answers: &[TreeAnswer]) {
        let roots: Option<Vec<TreeSum>> = answers.iter().map(|answer| answer.root).collect();
        self.stage = match roots {
            None => Stage::End(TreeOutcome::Building),
            Some(roots) if roots.iter().all(|root| *root == roots[0]) => Stage::End(TreeOutcome::Alike(roots[0])),
            Some(roots) => {
                let count = roots.iter().map(|root| root.count).max().unwrap_or_default();
                let open = vec![(TreeNode::ROOT, count)];
                Stage::Branches { open, asked: Vec::new(), small: Vec::new(), question_count: 0 }
            }
        };
    }

    /// What the rows have of the blocks that differ, in their order. Returns those whose replicas differ in content
    /// alone, and those that some member may lack.
    fn on_views(&mut self, views: &[Option<BlockView>]) -> (Vec<BlockId>, Vec<BlockId>) {
        let Stage::LookUp(rows) = &mut self.stage else { return Default::default() };
        let (mut suspects, mut doubtful) = (Vec::new(), Vec::new());
        assert_eq!(rows.len(), views.len(), "each block of {} that differs was looked up", self.home);
        for ((block, row), view) in std::mem::take(rows).into_iter().zip(views) {
            if !view.as_ref().is_some_and(|view| view.complete && view.home == self.home) {
                self.contradictions_only = false; // it was deleted, or changes just now
            } else if is_held_alike(&row) {
                suspects.push(block);
            } else {
                self.contradictions_only = false;
                doubtful.push(block);
            }
        }
        self.contradictions_only &= suspects.len() <= ANEW_COUNT_MAX;
        self.stage = if suspects.is_empty() {
            Stage::End(TreeOutcome::Differ { contradictions_only: false })
        } else {
            Stage::Anew(suspects.iter().take(ANEW_COUNT_MAX).copied().collect())
        };
        (suspects, doubtful)
    }
}

impl Leader {
    /// What the rows have of the blocks that differ between members, as [`TreeStep::LookUp`] asked. True: some member
    /// may lack one of them, and repair has work.
    pub fn on_tree_views(&mut self, comparison: &mut TreeComparison, views: &[Option<BlockView>]) -> bool {
        let (suspects, doubtful) = comparison.on_views(views);
        doubtful.iter().for_each(|block| self.repair.doubt(*block));
        self.hash_trees.on_differing(comparison.home, &suspects);
        !doubtful.is_empty()
    }

    /// The answers of members that verified their replicas, as [`TreeStep::Verify`] asked; `None`: no answer.
    pub fn on_tree_verified(
        &mut self,
        comparison: &mut TreeComparison,
        answers: &[(NodeId, Option<Fitness>)],
    ) -> TreeFinding {
        let mut finding = TreeFinding::default();
        let Stage::Verify(rows) = &mut comparison.stage else { return finding };
        let Some((block, row)) = rows.pop_first() else { return finding };
        let Some(generation) = row.iter().flatten().map(|leaf| leaf.generation).next() else { return finding };
        let unfit = answers.iter().filter(|(_, answer)| *answer == Some(Fitness::Unfit));
        finding.damaged = unfit.map(|(node, _)| *node).collect();
        finding.damaged.iter().for_each(|node| self.repair.on_bad(block, *node, generation));
        let is_contradiction = answers.iter().all(|(_, answer)| *answer == Some(Fitness::Fit));
        comparison.contradictions_only &= is_contradiction;
        if is_contradiction && self.hash_trees.on_contradiction(block, comparison.home) {
            let mut by_content: BTreeMap<u64, Vec<NodeId>> = BTreeMap::new();
            for (node, leaf) in comparison.members.iter().zip(&row) {
                by_content.entry(leaf.map_or(0, |leaf| leaf.content)).or_default().push(*node);
            }
            finding.contradiction = by_content.into_values().collect();
        }
        finding
    }
}

/// Branches of `asked` that are not the same in all answers, and how many leaves are below each at most.
fn differing_branches(asked: &[TreeNode], answers: &[TreeAnswer]) -> Vec<(TreeNode, u64)> {
    let mut differing = Vec::new();
    for (place, node) in asked.iter().enumerate() {
        for number in 0..FAN_OUT {
            let sums = || answers.iter().map(|answer| answer.branches[place * FAN_OUT + number]);
            let first = sums().next();
            if sums().any(|sum| Some(sum) != first) {
                let count = sums().map(|sum| sum.count).max().unwrap_or_default();
                differing.push((node.branch(number as u32), count));
            }
        }
    }
    differing
}

/// Of each member's leaves those that not all have alike.
fn differing_leaves(answers: &[TreeAnswer]) -> Rows {
    let mut rows = Rows::new();
    for (member, answer) in answers.iter().enumerate() {
        for leaf in &answer.leaves {
            rows.entry(leaf.block).or_insert_with(|| vec![None; answers.len()])[member] = Some(*leaf);
        }
    }
    rows.retain(|_, row| row.iter().any(|leaf| *leaf != row[0]));
    rows
}

/// All have it, of one generation and length.
fn is_held_alike(row: &Row) -> bool {
    let shape = |leaf: &Option<TreeLeaf>| leaf.map(|leaf| (leaf.generation, leaf.len));
    row.iter().all(|leaf| leaf.is_some() && shape(leaf) == shape(&row[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, node, rules};
    use blocks::{Command, Reply};

    fn leaf(index: u32, content: u64) -> TreeLeaf {
        TreeLeaf { block: block(index), generation: Generation(1001), len: 5, content }
    }

    fn view(index: u32) -> Option<BlockView> {
        Some(BlockView { generation: Generation(1001), ..crate::leader::tests::view(index) })
    }

    /// A member whose leaves all lie below one branch, with these sums.
    fn member(leaves: &[TreeLeaf]) -> TreeAnswer {
        let sum = |content: u64| TreeSum { count: leaves.len() as u64, high: content, low: 0 };
        let total = leaves.iter().fold(0u64, |total, leaf| total.wrapping_mul(31).wrapping_add(leaf.content));
        let mut branches = vec![TreeSum::default(); FAN_OUT];
        branches[9] = sum(total);
        TreeAnswer { root: Some(sum(total)), branches, leaves: leaves.to_vec() }
    }

    fn sealed() -> Leader {
        let mut leader = leader();
        for command in [Command::Seal { container: HOME, len: 0 }, Command::FinishSeal { container: HOME }] {
            leader.on_applied(&command, &Ok(Reply::Done), rules());
        }
        leader.hash_trees.list_some(&leader.cluster);
        assert_eq!(leader.hash_trees.due(NOW), [HOME]);
        leader
    }

    /// Down to what is looked up.
    fn descend(answers: [TreeAnswer; 2]) -> TreeComparison {
        let mut comparison = TreeComparison::new(HOME, vec![node(1), node(2)]);
        assert_eq!(comparison.step(), TreeStep::Ask(TreeQuestion::Root));
        comparison.on_answers(Some(answers.to_vec()));
        while let TreeStep::Ask(question) = comparison.step() {
            assert!(matches!(question, TreeQuestion::Branches(_) | TreeQuestion::Leaves(_)), "{question:?}");
            comparison.on_answers(Some(answers.to_vec()));
        }
        comparison
    }

    #[test]
    fn members_that_agree_or_cannot_be_compared_are_asked_once() {
        let one = member(&[leaf(1, 7)]);
        for (answers, outcome) in [
            (Some(vec![one.clone(), one.clone()]), TreeOutcome::Alike(one.root.unwrap())),
            (Some(vec![one.clone(), TreeAnswer::default()]), TreeOutcome::Building),
            (None, TreeOutcome::Later),
        ] {
            let mut comparison = TreeComparison::new(HOME, vec![node(1), node(2)]);
            comparison.on_answers(answers);
            assert_eq!(comparison.step(), TreeStep::End(outcome));
        }
    }

    /// A member that tells of more branches than there are is not believed.
    #[test]
    fn answers_of_another_shape_end_it() {
        let mut answers = [member(&[leaf(1, 7)]), member(&[leaf(1, 8)])];
        answers.iter_mut().for_each(|answer| answer.root.as_mut().unwrap().count = 1000);
        answers[1].branches.pop();
        let mut comparison = descend(answers);
        assert_eq!(comparison.step(), TreeStep::End(TreeOutcome::Later));
    }

    /// Block 1 is alike, 2 has other bytes, 3 and 4 are with one member each.
    #[test]
    fn only_what_differs_is_looked_up_and_what_one_lacks_is_doubted() {
        let mut leader = sealed();
        let mut comparison =
            descend([member(&[leaf(1, 7), leaf(2, 7), leaf(3, 7)]), member(&[leaf(1, 7), leaf(2, 8), leaf(4, 7)])]);
        assert_eq!(comparison.step(), TreeStep::LookUp(vec![block(2), block(3), block(4)]));
        let gone = Some(BlockView { complete: false, ..view(4).unwrap() });
        assert!(leader.on_tree_views(&mut comparison, &[view(2), view(3), gone]));
        assert_eq!(leader.repair.take_doubts(10), [block(3)], "the last one changes just now");
        assert_eq!(comparison.step(), TreeStep::Ask(TreeQuestion::Anew(vec![block(2)])));
        comparison.on_answers(Some(vec![member(&[leaf(2, 7)]), member(&[leaf(2, 7)])]));
        let differ = TreeOutcome::Differ { contradictions_only: false };
        assert_eq!(comparison.step(), TreeStep::End(differ), "what was remembered was wrong");
    }

    #[test]
    fn a_replica_that_fails_its_own_checksums_is_damaged_and_others_are_named() {
        let answers = [member(&[leaf(2, 7)]), member(&[leaf(2, 8)])];
        for (second, contradictions_only) in [(Fitness::Unfit, false), (Fitness::Busy, false), (Fitness::Fit, true)] {
            let mut leader = sealed();
            let mut comparison = descend(answers.clone());
            assert!(!leader.on_tree_views(&mut comparison, &[view(2)]));
            comparison.on_answers(Some(answers.to_vec()));
            let verify = TreeStep::Verify { block: block(2), generation: Generation(1001), len: 5 };
            assert_eq!(comparison.step(), verify);
            let said = [(node(1), Some(Fitness::Fit)), (node(2), Some(second))];
            let finding = leader.on_tree_verified(&mut comparison, &said);
            let damaged: &[NodeId] = if second == Fitness::Unfit { &[node(2)] } else { &[] };
            assert_eq!(
                (&finding.damaged[..], finding.contradiction.len()),
                (damaged, if contradictions_only { 2 } else { 0 })
            );
            assert!(leader.repair.bad().map(|(_, node)| node).eq(damaged.iter().copied()));
            assert_eq!(comparison.step(), TreeStep::End(TreeOutcome::Differ { contradictions_only }));
            leader.check();
        }
    }
}
