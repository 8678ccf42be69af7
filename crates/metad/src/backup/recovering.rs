//! A found block that nobody had finished when the rows were lost gets one length on its datanodes, so that it can be
//! read.
//!
//! ```text
//! a generation above all (log) ──▶ beginRecovery on every datanode: each fences its replica and reports it
//!        │
//!        ▼ lead::agree_on_found
//! finishRecovery on those that have the length ──▶ they report it as put, and the list has it
//! ```
//!
//! Promise: nothing that was acknowledged is cut off as long as each datanode answers. Replicas that are left out are
//! kept and listed as before.

use super::taking::{addr, list_one};
use super::whose::{self, Replicas, named};
use crate::core::Core;
use crate::node_questions::Answer;
use crate::recovery::{self, survivor};
use crate::refusal;
use hdfs::Exception;
use hdfs::exception::INVALID_BLOCK_TOKEN;
use lead::{FencedReplica, ReportedReplica, agree_on_found};
use namespace::{Reply, Reserve};
use std::sync::Arc;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};
use wire::admin::backup::{RecoverFoundRequest, RecoverFoundResponse};
use wire::node;

/// Answers the block as it is listed in a moment.
pub(crate) async fn recover_found(
    core: &Arc<Core>,
    request: RecoverFoundRequest,
) -> Result<RecoverFoundResponse, Exception> {
    let block = BlockId(request.block);
    core.must_be_changeable(|| format!("Cannot recover {block}"))?;
    let mut replicas = listed(core, block)?;
    // Whether what stands for the block can be read as it is.
    if !list_one(core, block, &replicas).best().is_some_and(|best| best.finalized) {
        recover(core, block, &mut replicas, request.force).await?;
    }
    Ok(RecoverFoundResponse { block: Some(list_one(core, block, &replicas)) })
}

/// The replicas of a found block, which are all of one file as far as is known.
fn listed(core: &Core, block: BlockId) -> Result<Replicas, Exception> {
    let leader = core.leader();
    let replicas = leader.found.replicas(block).cloned();
    let replicas = replicas.ok_or_else(|| refusal::illegal(format!("{block} is no found block: list them anew")))?;
    let Some(sides) = whose::sides(&replicas) else { return Ok(replicas) };
    let side = |(file, nodes): (FileId, Vec<NodeId>)| {
        let nodes: Vec<String> = nodes.into_iter().map(|node| addr(&leader, node)).collect();
        format!("{file}: {}", named(&nodes))
    };
    let sides: Vec<String> = sides.into_iter().map(side).collect();
    Err(refusal::illegal(format!(
        "datanodes contradict each other about whose {block} is, so it is not recovered, by `--force` neither. {}. \
         Revoke those that are wrong, or keep them stopped, and list it anew when they count as lost",
        sides.join("; ")
    )))
}

async fn recover(core: &Arc<Core>, block: BlockId, replicas: &mut Replicas, force: bool) -> Result<(), Exception> {
    let whose = whose::most_named(replicas).ok_or_else(|| {
        refusal::illegal(format!("no datanode says of which file {block} is, and it cannot be recovered without"))
    })?;
    let its_core = Arc::clone(core);
    let owner = core
        .chore(move || its_core.rows_here(|rows| namespace::read::file_of_block(rows, block)))
        .await?
        .map(|(_, owner)| owner);
    if owner.is_some_and(|owner| !owner.complete) {
        return Err(refusal::illegal(format!(
            "{block} is of a file that is being written: recover it when that is closed"
        )));
    }
    let generation = match core.change_unasked(Reserve { count: 1 }).await.map_err(refusal::change)? {
        Reply::Reserved { generation, .. } => generation,
        reply => unreachable!("what is reserved is answered by Reserved, not {reply:?}"),
    };
    // A writer may still be at it on some, and whoever lacks in the list may have what was acknowledged last.
    let nodes = core.with_cluster(|cluster, _| cluster.asked_of_found(owner.as_ref()));
    let shown = show(core, &nodes, block, whose, generation).await;
    if let Some(lack) = shown.lack(block, whose.0, force) {
        return Err(refusal::illegal(lack));
    }
    let Some(agreed) = agree_on_found(&shown.shown) else { return Ok(()) };
    let finished = recovery::finish_replicas(core, &nodes, block, whose, generation, &agreed).await;
    if finished.is_empty() {
        return Err(Exception::io(format!("no datanode finished its replica of {block}: recover it once more")));
    }
    tracing::warn!(%block, %generation, len = agreed.len, count = finished.len(), force, "found block recovered");
    let (file, home) = (Some(whose.0), Some(whose.1));
    let put = ReportedReplica { block, generation, len: agreed.len, file, home, finalized: true };
    replicas.extend(finished.into_iter().map(|node| (node, put)));
    Ok(())
}

/// Datanodes other than those that `shown` names are `host:port`, and may have a replica, for all that is known.
#[derive(Default)]
struct Shown {
    shown: Vec<FencedReplica>,
    /// They do not take the order's token, or what they have is another file's.
    contradict: Vec<String>,
    /// They answer, and fence nothing.
    refuse: Vec<String>,
    silent: Vec<String>,
}

impl Shown {
    /// Why the block cannot be recovered by what was shown.
    fn lack(&self, block: BlockId, file: FileId, force: bool) -> Option<String> {
        let Self { contradict, refuse, silent, .. } = self;
        if !contradict.is_empty() {
            // They live, and what they have would be outranked.
            return Some(format!(
                "{block} is not recovered as one of {file}, by `--force` neither, as datanodes refuse that, which may \
                 have it as another file's: {}. If they have just started, try it again. Otherwise whose it is was \
                 told wrongly: revoke whoever did, or keep these stopped",
                named(contradict)
            ));
        }
        if refuse.is_empty() && silent.is_empty() || force || mutation::is(Mutation::RecoverFoundAlone) {
            return None;
        }
        let told = [(refuse, "refuse to show it"), (silent, "do not answer")];
        let told = told.into_iter().filter(|(nodes, _)| !nodes.is_empty());
        let told: Vec<String> =
            told.map(|(nodes, how)| format!("datanodes that may have more of it {how}: {}", named(nodes))).collect();
        Some(format!(
            "{block} is not recovered, as {}. Recover it when they do, or by `--force` without what they have",
            told.join("; ")
        ))
    }
}

/// Has datanodes fence their replicas of the block, and report them.
async fn show(
    core: &Core,
    nodes: &[(NodeId, String)],
    block: BlockId,
    (file, home): (FileId, ContainerId),
    generation: Generation,
) -> Shown {
    let mut all = Shown::default();
    for (id, answer) in recovery::begin(core, nodes, block, (file, home), generation).await {
        let nodes_with = match answer {
            Answer::Said(node::BeginRecoveryResponse { replica: None }) => continue,
            Answer::Said(node::BeginRecoveryResponse { replica: Some(replica) }) => {
                // Nobody can fence one that is younger, or in a state that this program does not know.
                match survivor(id, &replica).filter(|replica| replica.generation < generation) {
                    // Where no tokens are signed, a datanode may show one that is not the file's.
                    _ if replica.file_id().is_some_and(|of| of != file) => &mut all.contradict,
                    Some(fenced) => {
                        all.shown.push(fenced);
                        continue;
                    }
                    None => &mut all.refuse,
                }
            }
            Answer::Refused { class } if class == INVALID_BLOCK_TOKEN => &mut all.contradict,
            Answer::Refused { .. } => &mut all.refuse,
            Answer::Unreached | Answer::Silence => &mut all.silent,
        };
        nodes_with.extend(nodes.iter().find(|(node, _)| *node == id).map(|(_, addr)| addr.clone()));
    }
    all
}
