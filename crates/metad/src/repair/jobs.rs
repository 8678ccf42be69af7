//! Jobs: their begin and end are entries of the log, so the next leader continues them and knows how they ended.
//! [`lead::Leader`] keeps the progress in between.

use super::error::RepairError;
use super::rules::rules;
use super::{balance, census};
use crate::core::Core;
use blocks::{BlocksError, Command, JobKind, JobRow, JobTask};
use namespace::read;
use std::sync::Arc;
use types::{BlockId, NodeId};

/// Tries to write a job down, each under another number.
const BEGIN_COUNT_MAX: usize = 3;

/// Begins a requested job. `Err` inside: the same is under way already, as this job.
pub(crate) async fn begin(
    core: &Arc<Core>,
    kind: JobKind,
    subject: &str,
    task: JobTask,
) -> Result<Result<u64, u64>, RepairError> {
    let id = match write_down(core, kind, subject, task).await? {
        Ok(id) => id,
        same => return Ok(same),
    };
    // The requester sees how much there is to do, or that there was nothing.
    balance::plan(core).await;
    settle(core, vec![id]).await;
    write_ends(core).await?;
    core.repair_wake.notify_one();
    Ok(Ok(id))
}

async fn write_down(core: &Core, kind: JobKind, subject: &str, task: JobTask) -> Result<Result<u64, u64>, RepairError> {
    let _one_after_the_other = core.plan().await;
    for _ in 0..BEGIN_COUNT_MAX {
        let id = {
            let leader = core.leader();
            if let Some(job) = leader.jobs.find(kind, subject) {
                return Ok(Err(job.id));
            }
            leader.jobs.next_id()
        };
        let row = JobRow { kind, subject: subject.to_owned(), started: core.now(), task: task.clone(), end: None };
        match core.change_blocks(Command::BeginJob { id, row }).await? {
            Ok(_) => return Ok(Ok(id)),
            // By a proposal that was in doubt, and was applied before this one: the leader knows of it by now.
            Err(BlocksError::JobTaken { .. }) => {}
            Err(refused) => return Err(RepairError::Refused(refused.to_string())),
        }
    }
    Err(RepairError::Refused("the numbers of jobs are taken by others; try again".to_owned()))
}

/// A drain that was asked for; answers its job, also where it is under way already.
pub(crate) async fn begin_drain(core: &Arc<Core>, node: NodeId) -> Result<u64, RepairError> {
    let (Ok(id) | Err(id)) = begin(core, JobKind::Drain, &node.to_string(), JobTask::Known).await?;
    Ok(id)
}

/// Brings jobs up to date, and ends those that are over.
pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    census::latest(core).await?;
    let rules = rules(core);
    core.leader().look_after_repair(&rules);
    let drains = core.leader().drains_without_job(&rules);
    for node in drains {
        // If its job cannot be recorded, everything else continues.
        match begin_drain(core, node).await {
            Err(RepairError::Refused(why)) => tracing::warn!(%node, why, "drain without a job"),
            begun => _ = begun?,
        }
    }
    balance::plan(core).await;
    let running = core.leader().jobs.running();
    settle(core, running).await;
    Ok(())
}

async fn settle(core: &Arc<Core>, jobs: Vec<u64>) {
    let its_core = Arc::clone(core);
    // Rows may wait for a disk.
    core.chore(move || jobs.into_iter().for_each(|id| settle_one(&its_core, id))).await;
}

fn settle_one(core: &Core, id: u64) {
    let damaged = core.leader().damaged_of_scrub(id);
    let damaged: Vec<(NodeId, bool)> =
        damaged.into_iter().map(|(block, node, comes)| (node, comes && !is_open(core, block))).collect();
    let rules = rules(core);
    let ended = core.leader().settle_job(id, &damaged, &rules, core.config.lease_soft());
    if let Some(state) = ended {
        tracing::info!(job = id, ?state, "job ended");
    }
}

/// A block whose file is open is not replaced: the recovery of the file decides about it, and may wait for a node that
/// never comes.
fn is_open(core: &Core, block: BlockId) -> bool {
    let found = core.rows_here(|rows| read::file_of_block(rows, block));
    found.is_ok_and(|found| found.is_some_and(|(_, view)| !view.complete))
}

/// Writes down what ended.
pub(super) async fn write_ends(core: &Core) -> Result<(), RepairError> {
    let ends = core.leader().jobs.ends(core.now(), core.monotonic());
    for (id, end) in ends {
        if let Err(refused) = core.change_blocks(Command::EndJob { id, end: end.clone() }).await? {
            tracing::warn!(id, %refused, "end of a job not recorded");
            // It would be refused again.
            core.leader().jobs.end_written(id, &end, core.monotonic());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use crate::repair::node_jobs;
    use wire::node::{DiskBalanceReport, ScrubReport};

    /// A datanode that was lost comes back and reports balancing that had ended without it, just when another one is
    /// written down.
    #[tokio::test]
    async fn balancing_of_before_makes_way_for_what_was_just_asked_for() {
        let (_dir, metad, core) = with_node().await;
        let (kind, node) = (JobKind::BalanceDisks, NodeId([1; 16]));
        let report = |number, ended| DiskBalanceReport { number, ended, ..DiskBalanceReport::default() };
        let beat = |number, ended| {
            let order = node_jobs::disk_balance(&mut core.leader(), node, Some(&report(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        assert_eq!((beat(7, false), beat(7, true)), (Some((7, true)), None), "it is told to end");
        let task = JobTask::BalanceDisks { number: 8, len_per_s: 0, within: 0, nodes: vec![node] };
        let id = begin(&core, kind, "", task).await.unwrap().unwrap();
        assert_eq!(beat(7, false), Some((8, false)), "it is told to do this one");
        assert_eq!(core.leader().jobs.find(kind, "").map(|job| job.id), Some(id));
        beat(8, true);
        round(&core).await.unwrap();
        assert_eq!(core.leader().jobs.find(kind, "").map(|job| job.id), None, "another one can be begun");
        drop(core);
        metad.shutdown().await;
    }

    /// Reports of work that nobody asked for begin no job, and nobody who was not asked keeps one from ending.
    #[tokio::test]
    async fn a_report_counts_for_a_job_that_runs_on_its_node() {
        let (_dir, metad, core) = with_node().await;
        let (asked, other) = (NodeId([1; 16]), NodeId([2; 16]));
        let scrubbed = |number, ended| ScrubReport { number, ended, ..ScrubReport::default() };
        let levelled = |number, ended| DiskBalanceReport { number, ended, ..DiskBalanceReport::default() };
        let scrub = |node, number, ended| {
            let order = node_jobs::scrub(&mut core.leader(), node, Some(&scrubbed(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        let balance = |node, number, ended| {
            let order = node_jobs::disk_balance(&mut core.leader(), node, Some(&levelled(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        assert_eq!((scrub(asked, 5, false), balance(asked, 5, false)), (Some((5, true)), Some((5, true))));
        let is_idle =
            || [JobKind::Scrub, JobKind::BalanceDisks].iter().all(|kind| core.leader().jobs.find(*kind, "").is_none());
        assert!(is_idle());
        let (scrub_number, balance_number, nodes) = (11, 12, vec![asked]);
        let task = JobTask::Scrub { number: scrub_number, len_per_s: 1, nodes: nodes.clone() };
        begin(&core, JobKind::Scrub, "", task).await.unwrap().unwrap();
        let task = JobTask::BalanceDisks { number: balance_number, len_per_s: 1, within: 1, nodes };
        begin(&core, JobKind::BalanceDisks, "", task).await.unwrap().unwrap();
        assert_eq!(scrub(other, scrub_number, false), Some((scrub_number, true)));
        assert_eq!(balance(other, balance_number, false), Some((balance_number, true)));
        assert_eq!(scrub(asked, scrub_number, true), Some((scrub_number, false)));
        assert_eq!(balance(asked, balance_number, true), Some((balance_number, false)));
        round(&core).await.unwrap();
        assert!(is_idle(), "those who were asked have ended");
        drop(core);
        metad.shutdown().await;
    }
}
