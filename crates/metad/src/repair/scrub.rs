//! A scrub that was asked for: its order goes out with the answers to heartbeats, and what the nodes say comes with
//! them.

use super::{RepairError, jobs, rules};
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::{JobState, Scrubbed};
use namespace::read;
use types::{BlockId, NodeId};
use wire::node::{ScrubOrder, ScrubReport};

/// Of each node, if nobody says otherwise: a disk of today does three times that, and others want to read as well.
pub(crate) const LEN_PER_S_USUAL: u64 = 50 << 20;

/// Begins one. `Err` inside: the job that is under way.
pub(crate) async fn begin(core: &Core, nodes: Vec<NodeId>, len_per_s: u64) -> Result<Result<u64, u64>, RepairError> {
    let number = core.now().0;
    jobs::begin(core, JobKind::Scrub, "", JobTask::Scrub { number, len_per_s, nodes }).await
}

pub(crate) fn stop(core: &Core) {
    if let Some(scrub) = core.scrub().as_mut() {
        scrub.stopping = true;
    }
}

/// What a node tells, and what it is told. One that reads for a scrub that has ended, or that nobody asked it for, is
/// to stop.
pub(crate) fn beat(core: &Core, node: NodeId, report: Option<&ScrubReport>) -> Option<ScrubOrder> {
    let mut known = core.scrub();
    let Some(scrub) = known.as_mut().filter(|scrub| scrub.concerns(node)) else {
        let under_way = report.filter(|report| !report.ended)?;
        return Some(ScrubOrder { number: under_way.number, len_per_s: 0, stop: true });
    };
    if let Some(report) = report.filter(|report| report.number == scrub.number) {
        let ScrubReport { checked_count, checked_len, total_count, total_len, bad_count, ended, .. } = *report;
        scrub.on_report(node, Scrubbed { checked_count, checked_len, total_count, total_len, bad_count, ended });
    }
    Some(ScrubOrder { number: scrub.number, len_per_s: scrub.len_per_s, stop: scrub.stopping })
}

/// A block whose file is open is not replaced: the recovery of the file decides about it, and may wait for a node that
/// never comes.
fn is_open(core: &Core, block: BlockId) -> bool {
    let found = core.rows_here(|rows| read::file_of_block(rows, block));
    found.is_ok_and(|found| found.is_some_and(|(_, view)| !view.complete))
}

/// May wait for a disk.
pub(super) fn round(core: &Core) {
    let now = core.monotonic();
    let rules = rules(core);
    // Beside each, whether there is a good copy to come.
    let damaged: Vec<(BlockId, NodeId, bool)> = {
        let repair = core.repair();
        let full = repair.is_missing_full();
        repair.bad().map(|(block, node)| (block, node, !full && !repair.is_missing(block))).collect()
    };
    let damaged: Vec<(NodeId, bool)> =
        damaged.into_iter().map(|(block, node, comes)| (node, comes && !is_open(core, block))).collect();
    let lost: Vec<NodeId> = core.with_cluster(|cluster, _| {
        cluster.nodes().filter(|member| rules.is_lost(Some(member))).map(|member| member.node.id).collect()
    });
    let mut known = core.scrub();
    let Some(scrub) = known.as_mut() else { return };
    lost.iter().for_each(|node| scrub.on_lost(*node));
    // What a lost node has is copied from others, whatever it is like.
    let concerned = damaged.iter().filter(|(node, _)| scrub.concerns(*node) && !lost.contains(node));
    let to_come = concerned.clone().filter(|(_, comes)| *comes).count();
    let damaged = concerned.count() as u64;
    let work = scrub.work(damaged);
    let mut jobs = core.jobs();
    jobs.progress(scrub.job, work, now);
    if !scrub.is_read() {
        jobs.set_state(scrub.job, JobState::Running, now);
        return;
    }
    if scrub.stopping {
        jobs.set_state(scrub.job, JobState::Stopped("by an administrator".to_owned()), now);
        *known = None;
        return;
    }
    // Those of which there is no good copy would be waited for for ever.
    if to_come > 0 {
        let note = format!("{to_come} damaged replicas are still to be replaced");
        jobs.set_state(scrub.job, JobState::Waiting(note), now);
        return;
    }
    let lost = match scrub.lost_count() {
        0 => String::new(),
        count => format!("; {count} datanodes were lost meanwhile"),
    };
    let note = match (work.found_count, damaged) {
        (0, _) => format!("no damage{lost}"),
        (found, 0) => format!("{found} damaged replicas were replaced by good copies{lost}"),
        (found, left) => format!(
            "{} of {found} damaged replicas were replaced; {left} have no good copy that is here, see under-replicated{lost}",
            found.saturating_sub(left)
        ),
    };
    tracing::info!(note, "a scrub has ended");
    core.contents().all_due();
    jobs.set_state(scrub.job, JobState::Done(note), now);
    *known = None;
}
