//! Members of a sealed container are compared by what their replicas hold: by hash trees, down to where they differ.
//!
//! ```text
//! sealed, whole ──▶ the roots of all members ──same──▶ again in an hour
//!                        └ differ: branches that differ ──▶ leaves that differ
//!                                    ├ one lacks it, or has another generation or length ──▶ compared as a single block
//!                                    └ other checksums ──▶ made anew from the disks ──▶ each member reads its own from end to end
//!                                         ├ one fails its own checksums ──▶ damaged, replaced by the others'
//!                                         └ all verify, and differ ──▶ named: nobody can say which is right
//! ```
//!
//! Promise: what two members have to tell grows with what they differ in, not with what they hold. Nothing is deleted
//! or replaced for differing alone, only for failing its own checksums.

use super::error::RepairError;
use super::rules::{ANSWER_MAX, askable};
use crate::core::Core;
use lead::{Leader, TreeOutcome};
use namespace::read;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ContainerId, Fitness, Generation, NodeId, TreeSum};
use wire::tree::{
    ANEW_COUNT_MAX, DEPTH_MAX, FAN_OUT, LEAF_COUNT_MAX, Leaf, TREE, TREE_NODE_COUNT_MAX, TreeNode, TreeRequest,
    TreeResponse,
};

/// Between looks for containers whose turn it is.
const ROUND_EACH: Duration = Duration::from_secs(2);
/// Steps of listing in a round: a million sealed containers are known after some minutes, and none is compared before
/// its turn in any case.
const LIST_STEP_COUNT: usize = 5;
/// With fewer leaves below a node of the tree they are asked for at once.
const LEAVES_AT_ONCE: u64 = 256;
/// Questions about branches in one comparison. What is not found by then is found by the next.
const QUESTION_COUNT_MAX: usize = 64;
/// Blocks that differ, in one comparison.
const DIFFERENCE_COUNT_MAX: usize = 1000;

/// Compares until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        io::stage::sleep(ROUND_EACH).await;
        if let Err(error) = round(&core).await {
            crate::task_fault::fault(&error).await;
        }
    }
}

async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    for _ in 0..LIST_STEP_COUNT {
        let has_more = core.with_leader(|Leader { cluster, hash_trees, .. }, _| hash_trees.list_some(cluster));
        if !has_more {
            break;
        }
    }
    let due = core.leader().hash_trees.due(core.monotonic());
    for home in due {
        if !core.leader().hash_trees.may_ask(home) {
            continue; // others of this round make their trees, or it was removed
        }
        let outcome = compare(core, home).await?;
        let is_in_time = core.leader().hash_trees.on_outcome(home, outcome, core.monotonic());
        if !is_in_time {
            tracing::warn!(%home, "a container's members made no hash trees in time; others go first");
        }
    }
    Ok(())
}

type Nodes = [(NodeId, String)];

/// The answers of all, in the order of `members`; `None` if one is missing.
async fn ask(core: &Core, members: &Nodes, request: &TreeRequest) -> Option<Vec<TreeResponse>> {
    let answers: Vec<(NodeId, Option<TreeResponse>)> =
        crate::ask::call_responsive(core, members, TREE, request, ANSWER_MAX).await;
    let mut answers: BTreeMap<NodeId, TreeResponse> =
        answers.into_iter().filter_map(|(id, answer)| Some((id, answer?))).collect();
    members.iter().map(|(id, _)| answers.remove(id)).collect()
}

async fn compare(core: &Arc<Core>, home: ContainerId) -> Result<TreeOutcome, RepairError> {
    let (ids, whole) = core.with_cluster(|cluster, _| {
        let ids = cluster.member_ids(home).to_vec();
        let whole = ids.iter().all(|id| cluster.is_whole(home, *id));
        (ids, whole)
    });
    let members = askable(core, ids.iter().copied());
    if members.is_empty() || members.len() < ids.len() || !whole {
        return Ok(TreeOutcome::Later);
    }
    let question = TreeRequest { home: home.0, ..TreeRequest::default() };
    let Some(answers) = ask(core, &members, &question).await else { return Ok(TreeOutcome::Later) };
    let roots: Option<Vec<TreeSum>> = answers.iter().map(|answer| answer.root.map(TreeSum::from)).collect();
    let Some(roots) = roots else { return Ok(TreeOutcome::Building) };
    if roots.iter().all(|root| *root == roots[0]) {
        return Ok(TreeOutcome::Alike(roots[0]));
    }
    let count = roots.iter().map(|root| root.count).max().unwrap_or_default();
    let Some(differing) = descend(core, home, &members, count).await else { return Ok(TreeOutcome::Later) };
    judge(core, home, &members, differing).await
}

/// What each member has of a block, in the order of the members.
type Row = Vec<Option<Leaf>>;

/// Blocks of which members have different leaves. `None`: somebody did not answer.
async fn descend(core: &Core, home: ContainerId, members: &Nodes, count: u64) -> Option<BTreeMap<BlockId, Row>> {
    let question =
        |nodes: &[TreeNode], leaves| TreeRequest { home: home.0, nodes: nodes.to_vec(), leaves, anew: vec![] };
    let mut open = vec![(TreeNode::ROOT, count)];
    let mut small: Vec<(TreeNode, u64)> = Vec::new();
    for _ in 0..QUESTION_COUNT_MAX {
        let (few, many): (Vec<_>, Vec<_>) =
            open.drain(..).partition(|(node, count)| *count <= LEAVES_AT_ONCE || node.depth >= DEPTH_MAX);
        small.extend(few);
        open = many;
        if open.is_empty() {
            break;
        }
        let asked: Vec<TreeNode> = open.drain(..open.len().min(TREE_NODE_COUNT_MAX)).map(|(node, _)| node).collect();
        let answers = ask(core, members, &question(&asked, false)).await?;
        if answers.iter().any(|answer| answer.branches.len() != asked.len() * FAN_OUT) {
            return None;
        }
        open.extend(differing_branches(&asked, &answers));
    }
    let mut rows: BTreeMap<BlockId, Row> = BTreeMap::new();
    let mut small = small.into_iter().peekable();
    while small.peek().is_some() && rows.len() < DIFFERENCE_COUNT_MAX {
        let (mut nodes, mut room) = (Vec::new(), LEAF_COUNT_MAX as u64);
        while nodes.len() < TREE_NODE_COUNT_MAX
            && let Some((node, count)) = small.next_if(|(_, count)| nodes.is_empty() || *count <= room)
        {
            nodes.push(node);
            room = room.saturating_sub(count);
        }
        let answers = ask(core, members, &question(&nodes, true)).await?;
        rows.extend(differing_leaves(answers.iter().map(|answer| &answer.leaves[..]).collect()));
    }
    Some(rows)
}

/// Branches of `asked` that are not the same in all answers, and how many leaves are below each at most.
fn differing_branches(asked: &[TreeNode], answers: &[TreeResponse]) -> Vec<(TreeNode, u64)> {
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
fn differing_leaves(answers: Vec<&[Leaf]>) -> BTreeMap<BlockId, Row> {
    let mut rows: BTreeMap<BlockId, Row> = BTreeMap::new();
    for (member, leaves) in answers.iter().enumerate() {
        for leaf in *leaves {
            rows.entry(BlockId(leaf.block)).or_insert_with(|| vec![None; answers.len()])[member] = Some(*leaf);
        }
    }
    rows.retain(|_, row| row.iter().any(|leaf| *leaf != row[0]));
    rows
}

/// All have it, of one generation and length.
fn is_held_alike(row: &Row) -> bool {
    let shape = |leaf: &Option<Leaf>| leaf.map(|leaf| (leaf.generation, leaf.len));
    row.iter().all(|leaf| leaf.is_some() && shape(leaf) == shape(&row[0]))
}

async fn judge(
    core: &Arc<Core>,
    home: ContainerId,
    members: &Nodes,
    rows: BTreeMap<BlockId, Row>,
) -> Result<TreeOutcome, RepairError> {
    let mut suspects = Vec::new();
    let mut contradictions_only = true;
    let blocks: Vec<BlockId> = rows.keys().copied().collect();
    let views = core.chore_rows(move |rows| {
        let views = blocks.into_iter().map(|block| Ok(read::file_of_block(rows, block)?.map(|(_, view)| view)));
        views.collect::<Result<Vec<_>, types::rows::RowsError>>()
    });
    for ((block, row), view) in rows.into_iter().zip(views.await?) {
        if !view.is_some_and(|view| view.complete && view.home == home) {
            contradictions_only = false; // it was deleted, or changes just now
        } else if is_held_alike(&row) {
            suspects.push(block);
        } else {
            contradictions_only = false;
            core.doubt(block);
        }
    }
    core.leader().hash_trees.on_differing(home, &suspects);
    contradictions_only &= suspects.len() <= ANEW_COUNT_MAX;
    suspects.truncate(ANEW_COUNT_MAX);
    if suspects.is_empty() {
        return Ok(TreeOutcome::Differ { contradictions_only: false });
    }
    let anew = suspects.iter().map(|block| block.0).collect();
    let question = TreeRequest { home: home.0, anew, ..TreeRequest::default() };
    let Some(answers) = ask(core, members, &question).await else { return Ok(TreeOutcome::Later) };
    let rows = differing_leaves(answers.iter().map(|answer| &answer.leaves[..]).collect());
    for (block, row) in rows {
        contradictions_only &= is_held_alike(&row) && verify_all(core, home, members, block, &row).await?;
    }
    Ok(TreeOutcome::Differ { contradictions_only })
}

/// Every member reads its own. True: all verify, so nobody can say which one is right.
async fn verify_all(
    core: &Arc<Core>,
    home: ContainerId,
    members: &Nodes,
    block: BlockId,
    row: &Row,
) -> Result<bool, RepairError> {
    let Some(Leaf { generation, len, .. }) = row.iter().flatten().next().copied() else { return Ok(false) };
    let answers = crate::ask::verify(core, members, block, Generation(generation), len).await;
    for (node, _) in answers.iter().filter(|(_, answer)| *answer == Some(Fitness::Unfit)) {
        tracing::warn!(%block, %home, %node, "a replica differs from the others', and from its own checksums");
        core.leader().repair.on_bad(block, *node, Generation(generation));
        core.repair_wake.notify_one();
    }
    if !answers.iter().all(|(_, answer)| *answer == Some(Fitness::Fit)) {
        return Ok(false);
    }
    if core.leader().hash_trees.on_contradiction(block, home) {
        let mut by_content: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for ((node, _), leaf) in members.iter().zip(row) {
            by_content.entry(leaf.map_or(0, |leaf| leaf.content)).or_default().push(node.to_string());
        }
        let groups: Vec<Vec<String>> = by_content.into_values().collect();
        tracing::error!(%block, %home, ?groups, "replicas agree with their own checksums and not with each other: compare the file with its source");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(block: u64, content: u64) -> Leaf {
        Leaf { block, generation: 1001, len: 5, content }
    }

    #[test]
    fn only_what_differs_is_left() {
        let one = [leaf(1, 7), leaf(2, 7), leaf(3, 7)];
        let two = [leaf(1, 7), leaf(2, 8), leaf(4, 7)];
        let rows = differing_leaves(vec![&one, &two]);
        let blocks: Vec<u64> = rows.keys().map(|block| block.0).collect();
        assert_eq!(blocks, [2, 3, 4]);
        assert!(is_held_alike(&rows[&BlockId(2)]), "other bytes");
        assert!(!is_held_alike(&rows[&BlockId(3)]) && !is_held_alike(&rows[&BlockId(4)]), "one lacks it");
    }
}
