//! A scrub that was asked for: its order goes out with the answers to heartbeats, and what the nodes say comes with
//! them.

use super::error::RepairError;
use super::jobs;
use super::rules::rules;
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::{Leader, NodeOrder, ScrubTerms};
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
    if let Some(scrub) = &mut core.leader().scrub {
        scrub.stopping = true;
    }
}

/// What a node reports, and what it is ordered to do.
pub(crate) fn report(leader: &mut Leader, node: NodeId, report: Option<&ScrubReport>) -> Option<ScrubOrder> {
    let scrubbed = |report: &ScrubReport| {
        let ScrubReport { number, checked_count, checked_len, total_count, total_len, bad_count, ended } = *report;
        (number, lead::ScrubReport { checked_count, checked_len, total_count, total_len, bad_count, ended })
    };
    let order = leader.on_scrub_report(node, report.map(scrubbed));
    order.map(|NodeOrder { number, terms: ScrubTerms { len_per_s }, stop }| ScrubOrder { number, len_per_s, stop })
}

/// A block whose file is open is not replaced: the recovery of the file decides about it, and may wait for a node that
/// never comes.
fn is_open(core: &Core, block: BlockId) -> bool {
    let found = core.rows_here(|rows| read::file_of_block(rows, block));
    found.is_ok_and(|found| found.is_some_and(|(_, view)| !view.complete))
}

/// May wait for a disk.
pub(super) fn round(core: &Core) {
    let damaged = core.leader().damaged_of_scrub();
    let damaged: Vec<(NodeId, bool)> =
        damaged.into_iter().map(|(block, node, comes)| (node, comes && !is_open(core, block))).collect();
    let rules = rules(core);
    let ended = core.leader().settle_scrub(&damaged, &rules);
    if let Some(note) = ended {
        tracing::info!(note, "a scrub has ended");
    }
}
