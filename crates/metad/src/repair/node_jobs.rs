//! Conversion of nodes' reports and orders of jobs that nodes carry out.

use lead::{DiskBalanceTerms, Leader, NodeOrder, ScrubTerms, kept_text};
use types::NodeId;
use wire::node::{DiskBalanceOrder, DiskBalanceReport, ScrubOrder, ScrubReport};

/// A node reports on a scrub; answers its order.
pub(crate) fn scrub(leader: &mut Leader, node: NodeId, report: Option<&ScrubReport>) -> Option<ScrubOrder> {
    let scrubbed = |report: &ScrubReport| {
        let ScrubReport { number, checked_count, checked_len, total_count, total_len, bad_count, ended } = *report;
        (number, lead::ScrubReport { checked_count, checked_len, total_count, total_len, bad_count, ended })
    };
    let order = leader.on_scrub_report(node, report.map(scrubbed));
    order.map(|NodeOrder { number, terms: ScrubTerms { len_per_s }, stop }| ScrubOrder { number, len_per_s, stop })
}

/// As [`scrub`], of balancing between its disks.
pub(crate) fn disk_balance(
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
