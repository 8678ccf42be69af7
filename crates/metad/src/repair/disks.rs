//! Balancing between the disks of a node, which nodes carry out by themselves when they are ordered to.

use super::error::RepairError;
use super::jobs;
use super::rules::rules;
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::{DiskBalanceTerms, Leader, NodeOrder, kept_text};
use types::NodeId;
use wire::node::{DiskBalanceOrder, DiskBalanceReport};

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
    if let Some(balance) = &mut core.leader().disk_balance {
        balance.stopping = true;
    }
}

/// What a node reports, and what it is ordered to do.
pub(crate) fn report(
    leader: &mut Leader,
    node: NodeId,
    report: Option<&DiskBalanceReport>,
) -> Option<DiskBalanceOrder> {
    let levelled = |report: &DiskBalanceReport| {
        let DiskBalanceReport { number, done_count, done_len, total_len, failed_count, ended, .. } = *report;
        let note = kept_text(&report.note);
        (number, lead::DiskBalanceReport { done_count, done_len, total_len, failed_count, ended, note })
    };
    let order = leader.on_disk_balance_report(node, report.map(levelled));
    order.map(|NodeOrder { number, terms: DiskBalanceTerms { len_per_s, within }, stop }| DiskBalanceOrder {
        number,
        len_per_s,
        stop,
        within,
    })
}

pub(super) fn round(core: &Core) {
    let rules = rules(core);
    let ended = core.leader().settle_disk_balance(&rules);
    if let Some(note) = ended {
        tracing::info!(note, "balancing of disks has ended");
    }
}
