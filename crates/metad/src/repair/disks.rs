//! The disks of the nodes: what each told last, and balancing between them, which the nodes do by themselves when they
//! are told to.

use super::{RepairError, jobs, rules};
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::{DiskBalance, JobState, Levelled};
use types::NodeId;
use wire::node::{Disk, DiskBalanceOrder, DiskBalanceReport};

/// Bytes of a text that is kept of what a node reports of a disk.
const TEXT_LEN_MAX: usize = 300;

/// Remembers what a node told of its disks, and says which have failed since.
pub(crate) fn told(core: &Core, node: NodeId, mut disks: Vec<Disk>) {
    for disk in &mut disks {
        for text in [&mut disk.volume, &mut disk.dir, &mut disk.failure] {
            text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
            // What is kept for as long as the node is known has the room that it needs, not what the message had.
            text.shrink_to_fit();
        }
    }
    disks.shrink_to_fit();
    let mut known = core.disks();
    let before = known.get(&node);
    for disk in disks.iter().filter(|disk| !disk.failure.is_empty()) {
        let was_known =
            before.is_some_and(|before| before.iter().any(|was| was.dir == disk.dir && !was.failure.is_empty()));
        if !was_known {
            tracing::warn!(%node, dir = disk.dir, why = disk.failure, "a disk of a datanode has failed");
        }
    }
    known.insert(node, disks);
}

/// Begins to make the disks of these nodes even. `Err` inside: the job that is under way.
pub(crate) async fn begin(
    core: &Core,
    nodes: Vec<NodeId>,
    len_per_s: u64,
    within: u64,
) -> Result<Result<u64, u64>, RepairError> {
    let number = core.now().0;
    let task = JobTask::BalanceDisks { number, len_per_s, within, nodes };
    jobs::begin(core, JobKind::BalanceDisks, "", task).await
}

pub(crate) fn stop(core: &Core) {
    if let Some(balance) = core.disk_balance().as_mut() {
        balance.stopping = true;
    }
}

/// What a node tells, and what it is told. One that moves for an order that has ended, or that nobody gave it, is to
/// stop.
pub(crate) fn beat(core: &Core, node: NodeId, report: Option<&DiskBalanceReport>) -> Option<DiskBalanceOrder> {
    let mut known = core.disk_balance();
    let Some(balance) = known.as_mut().filter(|balance| balance.concerns(node)) else {
        let under_way = report.filter(|report| !report.ended)?;
        return Some(DiskBalanceOrder { number: under_way.number, len_per_s: 0, stop: true, within: 0 });
    };
    if let Some(report) = report.filter(|report| report.number == balance.number) {
        let DiskBalanceReport { done_count, done_len, total_len, failed_count, ended, .. } = *report;
        let mut note = report.note.clone();
        note.truncate(note.floor_char_boundary(TEXT_LEN_MAX));
        balance.on_report(node, Levelled { done_count, done_len, total_len, failed_count, ended, note });
    }
    let DiskBalance { number, len_per_s, within, stopping, .. } = *balance;
    Some(DiskBalanceOrder { number, len_per_s, stop: stopping, within })
}

pub(super) fn round(core: &Core) {
    let now = core.monotonic();
    let rules = rules(core);
    let lost: Vec<NodeId> = core.with_cluster(|cluster, _| {
        cluster.nodes().filter(|member| rules.is_lost(Some(member))).map(|member| member.node.id).collect()
    });
    let mut known = core.disk_balance();
    let Some(balance) = known.as_mut() else { return };
    lost.into_iter().for_each(|node| balance.on_lost(node));
    let mut jobs = core.jobs();
    jobs.progress(balance.job, balance.work(), now);
    if !balance.has_ended() {
        return;
    }
    let note = balance.note();
    tracing::info!(note, "balancing of disks has ended");
    let state =
        if balance.stopping { JobState::Stopped(format!("by an administrator; {note}")) } else { JobState::Done(note) };
    jobs.set_state(balance.job, state, now);
    *known = None;
}
