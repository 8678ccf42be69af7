//! Heartbeats of datanodes. `lead::Leader` decides what follows.

use super::messages::{copy, deletion, reported, reported_replica, short};
use super::replicas::{VIEW_COUNT, check_replicas, look_up, owners, reconcile};
use crate::block_tokens;
use crate::core::Core;
use crate::leaves;
use crate::principal::RegisteredNode;
use crate::refusal;
use crate::repair;
use crate::to_wire;
use hdfs::Exception;
use lead::ReportedReplica;
use namespace::BlockView;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Millis, NodeId};
use wire::node::{DISK_COUNT_MAX, Deletion, HeartbeatRequest, Orders, PAGE_COUNT_MAX, Replica};

/// Failures of copies that one heartbeat brings into the log. A guess: a node makes a few copies at a time.
const LOGGED_FAILURE_COUNT_MAX: usize = 100;

/// Of a process that counts as its node, and registered with `xfer_addr`.
pub(crate) async fn heartbeat(
    core: &Arc<Core>,
    process: RegisteredNode,
    xfer_addr: &str,
    request: HeartbeatRequest,
) -> Result<Orders, Exception> {
    let node = process.id;
    check_lists(&request)?;
    if request.leaving_ms > 0 {
        leaves::on_goodbye(core, process, xfer_addr, request.leaving_ms).await?;
        return Ok(Orders { known: true, ..Orders::default() });
    }
    if request.clock_ms > 0 {
        core.heard.told_time(node, Millis(request.clock_ms), core.now());
    }
    let now = core.monotonic();
    let heartbeat = reported(&request);
    let Some(came) = core.leader().on_heartbeat(node, &heartbeat, now) else { return Ok(Orders::default()) };
    let more = came.failures.len().saturating_sub(LOGGED_FAILURE_COUNT_MAX);
    for at in came.failures.into_iter().take(LOGGED_FAILURE_COUNT_MAX) {
        let failure = &request.copy_failures[at];
        let (block, source, reason) = (BlockId(failure.block), short(&failure.source), short(&failure.reason));
        tracing::warn!(%block, %node, source, reason, more, "a replica was not copied");
    }
    if came.wakes_repair {
        core.repair_wake.notify_one();
    }
    if came.has_complaint {
        core.complaint_wake.notify_one();
    }
    bad(core, node, request.bad).await?;
    let replicas = request.put.iter().chain(&request.stale).map(reported_replica).collect();
    let mut orders = reconcile(core, node, replicas).await?;
    let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
    let again = core.leader().due_for_decision(node, is_safe_mode, core.monotonic());
    let later = reconcile(core, node, again).await?;
    orders.delete.extend(later.delete);
    orders.owners.extend(later.owners);
    let deleted: Vec<BlockId> = request.deleted.into_iter().map(BlockId).collect();
    let owed = core.leader().on_deleted(node, &deleted, is_safe_mode, now);
    orders.delete.extend(owed.into_iter().map(deletion));
    if !deleted.is_empty() {
        core.deletion_wake.notify_one();
    }
    if !is_safe_mode {
        orders.delete.extend(surplus(core, node, now).await?);
    }
    let disks = request.disks.iter().map(to_wire::kept_disk).collect();
    let mut leader = core.leader();
    let copies = leader.copy_orders(node, now);
    orders.tell_all = leader.surplus.take_ask(node);
    orders.scrub = repair::node_jobs::scrub(&mut leader, node, request.scrub.as_ref());
    orders.disk_balance = repair::node_jobs::disk_balance(&mut leader, node, request.disk_balance.as_ref());
    let failed = leader.on_disks(node, disks, now);
    // Whoever reads the log may be slow, and everybody waits for the leader.
    drop(leader);
    orders.copy = copies.into_iter().map(|order| copy(core, order)).collect();
    orders.tokens = Some(block_tokens::rules(core, request.token_revision));
    for disk in failed.shown {
        let more = failed.more_count;
        tracing::warn!(%node, dir = disk.dir, why = disk.failure, more, "a disk of a datanode has failed");
    }
    Ok(orders)
}

/// Whatever a heartbeat lists is gone through under locks that others wait for.
fn check_lists(request: &HeartbeatRequest) -> Result<(), Exception> {
    let HeartbeatRequest { put, stale, deleted, copying, copy_failures, bad, disks, .. } = request;
    let replicas = put.len() + stale.len();
    let others = [deleted.len(), copying.len(), copy_failures.len(), bad.len()];
    check_replicas(replicas)?;
    if others.into_iter().any(|count| count > PAGE_COUNT_MAX) {
        return Err(refusal::illegal(format!(
            "a list in a heartbeat is too long; send at most {PAGE_COUNT_MAX} entries"
        )));
    }
    if disks.len() > DISK_COUNT_MAX {
        return Err(refusal::illegal(format!("{} disks are too many; a node may have {DISK_COUNT_MAX}", disks.len())));
    }
    Ok(())
}

/// Surplus replicas that others have, as they said a moment ago. Each is looked up again.
async fn surplus(core: &Arc<Core>, node: NodeId, now: Duration) -> Result<Vec<Deletion>, Exception> {
    let going = core.leader().take_surplus(node, now);
    if going.is_empty() {
        return Ok(Vec::new());
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let found = core.rows_here(|rows| look_up(rows, &going))?;
        assert_eq!(found.len(), going.len(), "each replica is deleted by its own block");
        let found: Vec<(ReportedReplica, Option<BlockView>)> = going.into_iter().zip(found).collect();
        Ok(core.leader().confirm_surplus(node, &found, now).into_iter().map(deletion).collect())
    })
    .await
}

/// Replicas that a node has found damaged, by its own reading of them.
async fn bad(core: &Arc<Core>, node: NodeId, replicas: Vec<Replica>) -> Result<(), Exception> {
    if replicas.is_empty() {
        return Ok(());
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let reported: Vec<ReportedReplica> = replicas.iter().map(reported_replica).collect();
        for page in reported.chunks(VIEW_COUNT) {
            let found = owners(&core, page, core.monotonic())?;
            core.with_repair_context(|context| {
                for (reported, wanted, may_be_put) in found {
                    context.on_bad_reported((reported.block, reported.generation), node, wanted.as_ref(), may_be_put);
                }
            });
        }
        core.repair_wake.notify_one();
        Ok(())
    })
    .await
}
