//! What people see of repairing: a job for all of it while there is something to copy, one for each node that drains.
//!
//! What somebody asked for is written down when it begins and when it ends, so that the next leader goes on with it,
//! and tells how it ended.

use super::census;
use super::error::RepairError;
use super::rules::rules;
use crate::core::Core;
use blocks::{BlocksError, Command, JobKind, JobRow, JobTask};
use lead::Drained;
use std::sync::Arc;
use types::NodeId;

/// Tries to write a job down, each under another number.
const BEGIN_COUNT_MAX: usize = 3;

/// Begins what somebody asked for. `Err` inside: the same is under way already, as this job.
pub(crate) async fn begin(
    core: &Core,
    kind: JobKind,
    subject: &str,
    task: JobTask,
) -> Result<Result<u64, u64>, RepairError> {
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

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    census::latest(core).await?;
    let rules = rules(core);
    core.leader().look_after_repair(&rules);
    for node in drains(core) {
        // Asked for, but its leader fell before the job was written down. If it cannot be, all the rest goes on.
        match begin(core, JobKind::Drain, &node.to_string(), JobTask::Known).await {
            Err(RepairError::Refused(why)) => tracing::warn!(%node, why, "a drain has no job"),
            begun => _ = begun?,
        }
    }
    Ok(())
}

/// Writes down what ended.
pub(super) async fn write_ends(core: &Core) -> Result<(), RepairError> {
    let ends = core.leader().jobs.ends(core.now(), core.monotonic());
    for (id, end) in ends {
        if let Err(refused) = core.change_blocks(Command::EndJob { id, end: end.clone() }).await? {
            tracing::warn!(id, %refused, "the end of a job was not written down");
            // It would be refused again.
            core.leader().jobs.end_written(id, &end, core.monotonic());
        }
    }
    Ok(())
}

/// Answers nodes that drain without a job.
fn drains(core: &Core) -> Vec<NodeId> {
    let ids: Vec<NodeId> = core.with_cluster(|cluster, _| cluster.nodes().map(|member| member.node.id).collect());
    // One node at a time, since a drain looks at all containers of its node.
    let look = |id: &NodeId| {
        let rules = rules(core);
        let drained = core.leader().look_after_drain(*id, &rules, core.config.lease_soft());
        if drained == Drained::JustNow {
            tracing::info!(node = %id, "a datanode is drained: it may be taken away");
        }
        drained == Drained::WithoutJob
    };
    ids.into_iter().filter(look).collect()
}

/// So that whoever begins to drain is told of a job at once.
pub(crate) async fn begin_drain(core: &Core, node: NodeId) -> Result<u64, RepairError> {
    let begun = begin(core, JobKind::Drain, &node.to_string(), JobTask::Known).await?;
    let (Ok(id) | Err(id)) = begun;
    if begun.is_ok() {
        let rules = rules(core);
        core.leader().on_drain_begun(id, node, &rules);
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use crate::repair::{disks, scrub};
    use wire::node::{DiskBalanceReport, ScrubReport};

    /// A datanode that was lost comes back and reports balancing that had ended without it, just when another one is
    /// written down.
    #[tokio::test]
    async fn balancing_of_before_makes_way_for_what_was_just_asked_for() {
        let (_dir, metad, core) = with_node().await;
        let (kind, node) = (JobKind::BalanceDisks, NodeId([1; 16]));
        let report = |number, ended| DiskBalanceReport { number, ended, ..DiskBalanceReport::default() };
        let beat = |number, ended| {
            let order = disks::report(&mut core.leader(), node, Some(&report(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        assert_eq!((beat(7, false), beat(7, true)), (Some((7, true)), None), "it is told to end");
        let task = JobTask::BalanceDisks { number: 8, len_per_s: 0, within: 0, nodes: vec![node] };
        let id = begin(&core, kind, "", task).await.unwrap().unwrap();
        assert_eq!(beat(7, false), Some((8, false)), "it is told to do this one");
        assert_eq!(core.leader().jobs.find(kind, "").map(|job| job.id), Some(id));
        beat(8, true);
        disks::round(&core);
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
            let order = scrub::report(&mut core.leader(), node, Some(&scrubbed(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        let balance = |node, number, ended| {
            let order = disks::report(&mut core.leader(), node, Some(&levelled(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        assert_eq!((scrub(asked, 5, false), balance(asked, 5, false)), (Some((5, true)), Some((5, true))));
        let is_idle =
            || [JobKind::Scrub, JobKind::BalanceDisks].iter().all(|kind| core.leader().jobs.find(*kind, "").is_none());
        assert!(is_idle());
        scrub::begin(&core, vec![asked], 1).await.unwrap().unwrap();
        disks::begin(&core, vec![asked], 1, 1).await.unwrap().unwrap();
        let scrub_number = core.leader().scrub.as_ref().unwrap().number;
        let balance_number = core.leader().disk_balance.as_ref().unwrap().number;
        assert_eq!(scrub(other, scrub_number, false), Some((scrub_number, true)));
        assert_eq!(balance(other, balance_number, false), Some((balance_number, true)));
        assert_eq!(scrub(asked, scrub_number, true), Some((scrub_number, false)));
        assert_eq!(balance(asked, balance_number, true), Some((balance_number, false)));
        scrub::round(&core);
        disks::round(&core);
        assert!(is_idle(), "those who were asked have ended");
        drop(core);
        metad.shutdown().await;
    }
}
