//! Hash tree comparison of sealed containers: this module calls members and reads rows, [`lead::TreeComparison`]
//! decides.

use super::error::RepairError;
use super::rules::{ANSWER_MAX, askable};
use crate::core::Core;
use crate::node_questions::{self, Policy};
use lead::{Leader, TreeAnswer, TreeComparison, TreeFinding, TreeOutcome, TreeQuestion, TreeStep};
use namespace::{BlockView, read};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::rows::RowsError;
use types::{BlockId, ContainerId, NodeId};
use wire::tree::{TREE, TreeNode, TreeRequest, TreeResponse};

/// Between looks for containers whose turn it is.
const ROUND_EACH: Duration = Duration::from_secs(2);
/// Steps of listing in a round: a million sealed containers are known after some minutes, and none is compared before
/// its turn in any case.
const LIST_STEP_COUNT: usize = 5;
/// Compares until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        io::time::sleep(ROUND_EACH).await;
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
            tracing::warn!(%home, "hash trees not ready in time; comparison postponed");
        }
    }
    Ok(())
}

type Nodes = [(NodeId, String)];

async fn compare(core: &Arc<Core>, home: ContainerId) -> Result<TreeOutcome, RepairError> {
    let (ids, is_whole) = core.with_cluster(|cluster, _| {
        let ids = cluster.member_ids(home).to_vec();
        let is_whole = ids.iter().all(|id| cluster.is_whole(home, *id));
        (ids, is_whole)
    });
    let members = askable(core, ids.iter().copied());
    if members.is_empty() || members.len() < ids.len() || !is_whole {
        return Ok(TreeOutcome::Later);
    }
    let mut comparison = TreeComparison::new(home, members.iter().map(|(id, _)| *id).collect());
    loop {
        match comparison.step() {
            TreeStep::Ask(question) => comparison.on_answers(ask(core, home, &members, question).await),
            TreeStep::LookUp(blocks) => {
                let views = core.chore_rows(move |rows| look_up(rows, &blocks)).await?;
                if core.leader().on_tree_views(&mut comparison, &views) {
                    core.repair_wake.notify_one();
                }
            }
            TreeStep::Verify { block, generation, len } => {
                let answers = node_questions::verify(core, &members, block, generation, len).await;
                let finding = core.leader().on_tree_verified(&mut comparison, &answers);
                report(core, home, block, &finding);
            }
            TreeStep::End(outcome) => return Ok(outcome),
        }
    }
}

/// The answers of all, in the order of `members`; `None` if one is missing.
async fn ask(core: &Core, home: ContainerId, members: &Nodes, question: TreeQuestion) -> Option<Vec<TreeAnswer>> {
    let request = request(home, question);
    let policy = Policy::SkipUnresponsive;
    let answers = node_questions::ask::<_, TreeResponse>(core, members, TREE, &request, ANSWER_MAX, policy).await;
    let mut answers: BTreeMap<NodeId, TreeResponse> =
        answers.into_iter().filter_map(|(id, answer)| Some((id, answer.said()?))).collect();
    members.iter().map(|(id, _)| answers.remove(id).map(answer)).collect()
}

fn request(home: ContainerId, question: TreeQuestion) -> TreeRequest {
    let nodes = |nodes: Vec<types::TreeNode>| nodes.into_iter().map(TreeNode::from).collect();
    let request = TreeRequest { home: home.0, ..TreeRequest::default() };
    match question {
        TreeQuestion::Root => request,
        TreeQuestion::Branches(asked) => TreeRequest { nodes: nodes(asked), ..request },
        TreeQuestion::Leaves(asked) => TreeRequest { nodes: nodes(asked), leaves: true, ..request },
        TreeQuestion::Anew(blocks) => TreeRequest { anew: blocks.iter().map(|block| block.0).collect(), ..request },
    }
}

fn answer(response: TreeResponse) -> TreeAnswer {
    TreeAnswer {
        root: response.root.map(types::TreeSum::from),
        branches: response.branches.into_iter().map(types::TreeSum::from).collect(),
        leaves: response.leaves.into_iter().map(types::TreeLeaf::from).collect(),
    }
}

fn look_up(rows: &dyn types::rows::Rows, blocks: &[BlockId]) -> Result<Vec<Option<BlockView>>, RowsError> {
    blocks.iter().map(|block| Ok(read::file_of_block(rows, *block)?.map(|(_, view)| view))).collect()
}

fn report(core: &Core, home: ContainerId, block: BlockId, finding: &TreeFinding) {
    for node in &finding.damaged {
        tracing::warn!(%block, %home, %node, "replica differs from the others and from its own checksums");
        core.repair_wake.notify_one();
    }
    if !finding.contradiction.is_empty() {
        let groups: Vec<Vec<String>> =
            finding.contradiction.iter().map(|nodes| nodes.iter().map(NodeId::to_string).collect()).collect();
        tracing::error!(%block, %home, ?groups, "contradictory replicas: compare the file with its source");
    }
}
