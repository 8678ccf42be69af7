//! Lease recovery of a file whose writer is gone or was replaced. Its last block gets one length on all nodes; then the
//! file is closed.
//!
//! ```text
//! BeginRecovery (log): writer shut out, new generation
//!        │
//!        ▼
//! beginRecovery on every member ── each fences its replica and reports it
//!        │    if that is not enough, on every other datanode as well; unreachable nodes are asked again for a while,
//!        │    and without limit if no other node has anything
//!        ▼
//! lead::RecoveryRound ── if some members take no part, the replicas of the others are verified before they are used
//!        │
//!        ▼ one length
//! finishRecovery on the nodes that have it ──▶ FinishRecovery (log): file closed
//! ```
//!
//! Promise: the file is closed only after every member that answers has fenced its replica. A member that does not
//! answer keeps a replica of a lower generation, which is stale from then on. Progress is soft state: the namespace
//! records that the file is being recovered. The next attempt begins again under a higher generation.

use crate::block_tokens;
use crate::change_error::ChangeError;
use crate::core::Core;
use crate::node_questions::{self, Answer, Policy};
use hdfs::exception::INVALID_BLOCK_TOKEN;
use lead::{FencedReplica, Next, RecordedBlock, RecoveryPlan, RecoveryReply, RecoveryRound, Step};
use namespace::{BeginRecovery, BlockView, FinishRecovery, RECOVERY_HOLDER, Recovery, RecoveryTarget, Reply, read};
use security::block_token::Mode;
use std::sync::Arc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Fitness, Generation, NodeId, ReplicaState};
use wire::node;

/// Between attempts: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(15);
/// For one datanode to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// One that has waited for long asks after a further tenth of that time, at the latest after this.
const RETRY_MAX: Duration = Duration::from_secs(600);
/// Files of one holder read at a time.
const PAGE_COUNT: usize = 1000;

/// Recovers the last block of a file, as `BeginRecovery` answered, in a task of its own.
pub(crate) fn start(core: &Arc<Core>, file: FileId, last: BlockView, generation: Generation) {
    let of_task = Arc::clone(core);
    core.recoveries.begin(file, generation, |sender| {
        io::task::spawn("recovery", async move {
            let closed = run(&of_task, file, last, generation).await;
            let _ = sender.send(closed);
            of_task.recoveries.end(file, generation);
        })
    });
}

/// Takes a file from `holder`, if it still holds it.
pub(crate) async fn take(core: &Arc<Core>, file: FileId, holder: &str) {
    let begin = BeginRecovery { target: RecoveryTarget::File(file), holder: Some(holder.to_owned()) };
    match core.change_unasked(begin).await {
        Ok(Reply::Recovery(Recovery::Started { file, last, generation, .. })) => {
            tracing::info!(%file, block = %last.block, %generation, holder, "file recovery begun");
            start(core, file, last, generation);
        }
        Ok(_) => tracing::debug!(%file, holder, "file needed no recovery"),
        // It was deleted meanwhile.
        Err(ChangeError::Refused(refused)) => tracing::debug!(%file, %refused, "file not recovered"),
        Err(error) => tracing::error!(%file, %error, "file recovery not begun"),
    }
}

/// Resumes interrupted work: files that were being recovered when this server stopped, and those of silent holders.
pub(crate) async fn look_after_leases(core: &Arc<Core>) -> Result<(), types::rows::RowsError> {
    let now = core.monotonic();
    core.leader().block_leases.sweep(now);
    if core.safe_mode()?.is_some() {
        return Ok(()); // files stay open; their writers are looked after when it is over
    }
    let mut holders = core.leader().writer_leases.silent(now, core.config.lease_hard());
    holders.retain(|holder| holder != RECOVERY_HOLDER);
    holders.push(RECOVERY_HOLDER.to_owned());
    for holder in holders {
        take_all(core, &holder, now).await?;
    }
    // Clients that closed all they had and went.
    let silent = core.leader().writer_leases.next_silent(now, core.config.lease_soft());
    for holder in silent {
        let of_whom = holder.clone();
        if core.chore_rows(move |rows| read::lease_files(rows, &of_whom, None, 1)).await?.is_empty() {
            core.leader().writer_leases.forget(&holder, now.saturating_sub(core.config.lease_soft()));
        }
    }
    Ok(())
}

/// Takes the files of a holder whose lease had run out at `seen`, until the holder renews it.
async fn take_all(core: &Arc<Core>, holder: &str, seen: Duration) -> Result<(), types::rows::RowsError> {
    let limit = core.config.lease_hard();
    let mut after = None;
    loop {
        let of_whom = holder.to_owned();
        let files = core.chore_rows(move |rows| read::lease_files(rows, &of_whom, after, PAGE_COUNT)).await?;
        if after.is_none() && files.is_empty() {
            core.leader().writer_leases.forget(holder, seen.saturating_sub(limit));
        }
        after = files.last().copied();
        for file in files {
            if !core.leader().writer_leases.may_be_taken(holder, core.monotonic(), limit) {
                return Ok(());
            }
            if core.recoveries.has_room() && !core.recoveries.is_running(file) {
                take(core, file, holder).await;
            }
        }
        if after.is_none() {
            return Ok(());
        }
    }
}

/// True: the file is closed.
async fn run(core: &Arc<Core>, file: FileId, last: BlockView, generation: Generation) -> bool {
    let begun = core.monotonic();
    let mut retry = RETRY_FIRST;
    loop {
        match attempt(core, &last, generation, begun).await {
            Attempt::Ended(len) => return finish(core, file, &last, generation, len).await,
            Attempt::Again(reason) => tracing::debug!(block = %last.block, reason, "file recovery waiting"),
            Attempt::Doubtful => {
                tracing::warn!(
                    block = %last.block, %generation,
                    "no datanode with a valid replica finished the recovery"
                );
                io::time::sleep(retry).await;
                return false;
            }
        }
        io::time::sleep(retry).await;
        let waited = core.monotonic().saturating_sub(begun);
        retry = (retry * 2).min(RETRY_LAST.max(waited / 10)).min(RETRY_MAX);
    }
}

enum Attempt {
    /// The length of the block now; `None`: nothing is left of it.
    Ended(Option<u64>),
    Again(&'static str),
    /// A node may have finished its replica unknown to us, or those that did are not fit, and others did not. Only a
    /// higher generation distinguishes these replicas from later ones. So this recovery ends, and the next look begins
    /// another.
    Doubtful,
}

async fn attempt(core: &Arc<Core>, last: &BlockView, generation: Generation, begun: Duration) -> Attempt {
    // A block that is being cut was whole: what must be there is what shall be left.
    let block = last.block;
    let Ok(cut) = core.chore_rows(move |rows| read::cut_len(rows, block)).await else {
        return Attempt::Again("store read failed");
    };
    let recorded = RecordedBlock { generation: last.generation, len: last.len, cut };
    let mut nodes: Vec<(NodeId, String)> = core.with_cluster(|cluster, _| {
        cluster.members(last.home).into_iter().map(|member| (member.node.id, member.node.ipc_addr())).collect()
    });
    let mut round = RecoveryRound::new(recorded, show(core, &nodes, last, generation).await);
    let agreed = loop {
        // Together with the time that the answers took: a silent node was silent in it, too.
        let waited = core.monotonic().saturating_sub(begun);
        match round.next(waited) {
            Next::AskOthers if mutation::is(Mutation::ForgetChains) => round.others_said(Vec::new()),
            Next::Read(ids) if mutation::is(Mutation::BelieveUnread) => {
                ids.into_iter().for_each(|id| round.was_read(id, Some(Fitness::Fit)));
            }
            Next::AskOthers => {
                let others: Vec<(NodeId, String)> = core.with_cluster(|cluster, _| {
                    let known = cluster.nodes().filter(|member| !nodes.iter().any(|(id, _)| *id == member.node.id));
                    known.map(|member| (member.node.id, member.node.ipc_addr())).collect()
                });
                round.others_said(show(core, &others, last, generation).await);
                nodes.extend(others);
            }
            Next::Read(ids) => {
                let readers: Vec<(NodeId, String)> = nodes.iter().filter(|(id, _)| ids.contains(id)).cloned().collect();
                let len = round.len_max().max(last.len);
                for (id, fitness) in read(core, &readers, last.block, last.generation, len).await {
                    round.was_read(id, fitness);
                }
            }
            Next::Do(Step::Wait(reason)) => return Attempt::Again(reason),
            Next::Do(Step::Nothing) => return Attempt::Ended(None),
            Next::Do(Step::Finish(agreed)) => break agreed,
        }
    };
    let len = agreed.len;
    let whose = (last.replica_file(), last.home);
    let finished = finish_replicas(core, &nodes, last.block, whose, generation, &agreed).await;
    if finished.is_empty() && !mutation::is(Mutation::FinishUnanswered) {
        return Attempt::Doubtful;
    }
    let unread = round.to_be_read(&agreed, &finished);
    if !unread.is_empty() && !mutation::is(Mutation::BelieveUnread) {
        nodes.retain(|(id, _)| unread.contains(id));
        let read = read(core, &nodes, last.block, generation, len).await;
        if !read.iter().any(|(_, fitness)| *fitness == Some(Fitness::Fit)) {
            return Attempt::Doubtful;
        }
    }
    Attempt::Ended(Some(len))
}

/// Has nodes fence their replicas of the block, and report them.
async fn show(core: &Core, nodes: &[(NodeId, String)], last: &BlockView, generation: Generation) -> Vec<RecoveryReply> {
    let answers = begin(core, nodes, last.block, (last.replica_file(), last.home), generation).await;
    answers.into_iter().map(|(id, answer)| shown(id, answer, generation)).collect()
}

/// Has all these nodes fence their replicas of a block against who wrote before, and show them.
pub(crate) async fn begin(
    core: &Core,
    nodes: &[(NodeId, String)],
    block: BlockId,
    (file, home): (FileId, ContainerId),
    generation: Generation,
) -> Vec<(NodeId, Answer<node::BeginRecoveryResponse>)> {
    let token = block_tokens::of_order(core, file, home, Mode::Write, block);
    let request = node::BeginRecoveryRequest { block: block.0, generation: generation.0, token };
    node_questions::ask(core, nodes, node::BEGIN_RECOVERY, &request, ANSWER_MAX, Policy::All).await
}

/// Gives the block the length that was agreed on, on the nodes that have it. Answers which of them have put it by now.
pub(crate) async fn finish_replicas(
    core: &Core,
    nodes: &[(NodeId, String)],
    block: BlockId,
    (file, home): (FileId, ContainerId),
    generation: Generation,
    agreed: &RecoveryPlan,
) -> Vec<NodeId> {
    let token = block_tokens::of_order(core, file, home, Mode::Write, block);
    let request = node::FinishRecoveryRequest { block: block.0, generation: generation.0, len: agreed.len, token };
    let nodes: Vec<_> = nodes.iter().filter(|(id, _)| agreed.nodes.contains(id)).cloned().collect();
    let answers = node_questions::ask::<_, node::FinishRecoveryResponse>(
        core,
        &nodes,
        node::FINISH_RECOVERY,
        &request,
        ANSWER_MAX,
        Policy::All,
    );
    answers.await.into_iter().filter_map(|(id, answer)| answer.said().map(|_| id)).collect()
}

/// What a node's answer tells of its replica.
fn shown(id: NodeId, answer: Answer<node::BeginRecoveryResponse>, recovery: Generation) -> RecoveryReply {
    match answer {
        // One that does not take this order may have the replica that matters: it lives, and is asked again.
        Answer::Refused { class } if class == node::CANNOT_SAY || class == INVALID_BLOCK_TOKEN => {
            RecoveryReply::Unknown
        }
        Answer::Refused { .. } | Answer::Unreached | Answer::Silence => RecoveryReply::Silence,
        Answer::Said(node::BeginRecoveryResponse { replica: None }) => RecoveryReply::Nothing,
        // In a state that this program does not know it may be better than all others.
        Answer::Said(node::BeginRecoveryResponse { replica: Some(replica) }) => {
            survivor(id, &replica).map_or(RecoveryReply::Unknown, |replica| RecoveryReply::fenced(replica, recovery))
        }
    }
}

/// Has nodes read their replicas, which are fenced, from end to end.
async fn read(
    core: &Core,
    nodes: &[(NodeId, String)],
    block: BlockId,
    generation: Generation,
    len: u64,
) -> Vec<(NodeId, Option<Fitness>)> {
    let _turn = core.recoveries.turn_to_read().await;
    node_questions::verify(core, nodes, block, generation, len).await
}

pub(crate) fn survivor(node: NodeId, replica: &node::Replica) -> Option<FencedReplica> {
    let state = ReplicaState::try_from(replica.state).ok()?;
    Some(FencedReplica { node, state, generation: replica.generation_stamp(), len: replica.len })
}

async fn finish(core: &Core, file: FileId, last: &BlockView, generation: Generation, len: Option<u64>) -> bool {
    let finish = FinishRecovery { file, block: last.block, generation, len };
    match core.change_unasked(finish).await {
        Ok(_) => {
            tracing::info!(%file, block = %last.block, %generation, ?len, "file recovered and closed");
            true
        }
        Err(ChangeError::Refused(refused)) => {
            tracing::debug!(%file, %refused, "file recovery superseded");
            false
        }
        Err(error) => {
            tracing::error!(%file, %error, "file recovery not recorded");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::{create, with_node};
    use types::FsPath;

    async fn count_of(core: &Core, holder: &'static str) -> usize {
        core.chore_rows(move |rows| read::lease_files(rows, holder, None, PAGE_COUNT)).await.unwrap().len()
    }

    /// Such a node may be the only one with bytes that were acknowledged: the block is not given up without it.
    #[test]
    fn a_node_that_does_not_take_the_order_is_not_gone() {
        let refused = |class: &str| shown(NodeId([1; 16]), Answer::Refused { class: class.to_owned() }, Generation(9));
        assert_eq!(refused(INVALID_BLOCK_TOKEN), RecoveryReply::Unknown);
        assert_eq!(refused("java.io.IOException"), RecoveryReply::Silence);
    }

    /// Whose generation would outdo that of all others.
    #[test]
    fn a_replica_younger_than_the_recovery_is_not_believed() {
        let replica = |generation| node::Replica { generation, ..node::Replica::default() };
        let shown = |generation| {
            let response = node::BeginRecoveryResponse { replica: Some(replica(generation)) };
            shown(NodeId([1; 16]), Answer::Said(response), Generation(9))
        };
        assert!(matches!(shown(8), RecoveryReply::Replica(_)));
        assert_eq!((shown(9), shown(u64::MAX)), (RecoveryReply::Unknown, RecoveryReply::Unknown));
    }

    /// A newer program shows a replica in a state that this one does not know: it is not taken for a finalized one.
    #[test]
    fn a_replica_in_an_unknown_state_is_not_believed() {
        let replica = |state| node::Replica { state, ..node::Replica::default() };
        let state = |number| survivor(NodeId([1; 16]), &replica(number)).map(|survivor| survivor.state);
        assert_eq!((state(0), state(99)), (Some(ReplicaState::Finalized), None));
        assert!(
            !crate::nodes::messages::reported_replica(&replica(99)).finalized
                && crate::nodes::messages::reported_replica(&replica(0)).finalized
        );
    }

    /// Its files wait for those of others to be taken, and it renews its lease meanwhile.
    #[tokio::test]
    async fn a_holder_that_comes_back_keeps_its_files() {
        let (_dir, metad, core) = with_node().await;
        create(&core, &FsPath::parse("/f").unwrap()).await;
        let now = core.monotonic();
        core.leader().writer_leases.asks("writer");
        core.leader().writer_leases.answered("writer", true, now);
        take_all(&core, "writer", now).await.unwrap();
        assert_eq!(count_of(&core, "writer").await, 1);
        core.leader().writer_leases.forget("writer", now);
        take_all(&core, "writer", now).await.unwrap();
        assert_eq!(count_of(&core, "writer").await, 0, "it does not come back");
        drop(core);
        metad.shutdown().await;
    }
}
