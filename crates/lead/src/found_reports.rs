//! Which datanodes have reported all that they have, as far as the list of found blocks goes.
//!
//! ```text
//! registered ──▶ catalogue begun ──▶ its end ──▶ none of its replicas is undecided: the list has what it has
//! ```
//!
//! Promise: what is saved or released by the list can be told from what nobody has heard of yet. A node that registers
//! anew, perhaps with a disk more, has to send its catalogue once more.

use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, NodeId};

#[derive(Debug, Default)]
pub(crate) struct FoundReports {
    of: BTreeMap<NodeId, Report>,
}

#[derive(Debug, Default)]
struct Report {
    /// Catalogues that were begun.
    number: u64,
    /// A catalogue was begun since the node registered.
    is_begun: bool,
    /// One was completed.
    is_complete: bool,
    /// Blocks that a backup may have forgotten, and that a client may still put: some will be found blocks. All of them
    /// are kept by [`crate::Undecided`], which has the limit.
    undecided: BTreeSet<BlockId>,
    /// Replicas that found no room, by the last complete catalogue.
    passed_over: u64,
    /// And since the last one was begun.
    passed_over_since: u64,
}

impl Report {
    /// A catalogue that is under way does not make it less.
    fn passed_over(&self) -> u64 {
        self.passed_over.max(self.passed_over_since)
    }
}

impl FoundReports {
    pub(crate) fn on_registered(&mut self, node: NodeId) {
        let report = self.of.entry(node).or_default();
        (report.is_begun, report.is_complete) = (false, false);
    }

    pub(crate) fn on_catalogue_begun(&mut self, node: NodeId) {
        let report = self.of.entry(node).or_default();
        (report.is_begun, report.passed_over_since) = (true, 0);
        report.number += 1;
    }

    /// One whose beginning another leader has heard says nothing: false.
    pub(crate) fn on_catalogue_complete(&mut self, node: NodeId) -> bool {
        let Some(report) = self.of.get_mut(&node).filter(|report| report.is_begun) else { return false };
        (report.is_complete, report.passed_over) = (true, report.passed_over_since);
        true
    }

    /// Of the last that `node` began; 0 before the first.
    pub(crate) fn catalogue_number(&self, node: NodeId) -> u64 {
        self.of.get(&node).map_or(0, |report| report.number)
    }

    pub(crate) fn on_passed_over(&mut self, node: NodeId) {
        let report = self.of.entry(node).or_default();
        report.passed_over_since = report.passed_over_since.saturating_add(1);
    }

    pub(crate) fn on_undecided(&mut self, node: NodeId, block: BlockId) {
        self.of.entry(node).or_default().undecided.insert(block);
    }

    pub(crate) fn on_decided(&mut self, node: NodeId, block: BlockId) {
        if let Some(report) = self.of.get_mut(&node) {
            report.undecided.remove(&block);
        }
    }

    /// What was undecided is reported again, should the node come back.
    pub(crate) fn on_lost(&mut self, node: NodeId) {
        let Some(report) = self.of.get_mut(&node).filter(|report| !report.undecided.is_empty()) else { return };
        report.undecided.clear();
        (report.is_begun, report.is_complete) = (false, false);
    }

    pub(crate) fn on_released(&mut self) {
        for report in self.of.values_mut() {
            (report.passed_over, report.passed_over_since) = (0, 0);
            report.undecided.clear();
        }
    }

    pub(crate) fn is_complete(&self, node: NodeId) -> bool {
        self.of.get(&node).is_some_and(|report| report.is_complete && report.undecided.is_empty())
    }

    /// With the nodes that reported them.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = (NodeId, BlockId)> {
        self.of.iter().flat_map(|(node, report)| report.undecided.iter().map(|block| (*node, *block)))
    }

    pub(crate) fn check(&self) {
        for (node, report) in &self.of {
            assert!(report.is_begun || !report.is_complete, "{node} ended a catalogue that it has not begun");
        }
    }

    /// Of all nodes.
    pub(crate) fn passed_over(&self) -> u64 {
        self.of.values().map(Report::passed_over).fold(0, u64::saturating_add)
    }

    pub(crate) fn passed_over_of(&self, node: NodeId) -> u64 {
        self.of.get(&node).map_or(0, Report::passed_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId([1; 16]);

    #[test]
    fn a_node_has_reported_when_its_catalogue_is_complete_and_decided() {
        let mut reports = FoundReports::default();
        reports.check();
        reports.on_catalogue_complete(NODE);
        assert!(!reports.is_complete(NODE), "nobody has heard its beginning");
        reports.on_catalogue_begun(NODE);
        reports.on_undecided(NODE, BlockId(7));
        assert!(!reports.is_complete(NODE));
        reports.on_catalogue_complete(NODE);
        assert!(!reports.is_complete(NODE), "a client may still put a block of it");
        reports.on_decided(NODE, BlockId(7));
        assert!(reports.is_complete(NODE));
        reports.on_catalogue_begun(NODE);
        assert!(reports.is_complete(NODE), "the next one adds to what is known");
        reports.on_registered(NODE);
        reports.on_catalogue_complete(NODE);
        assert!(!reports.is_complete(NODE), "it may have come back with another disk");
        reports.on_catalogue_begun(NODE);
        reports.on_undecided(NODE, BlockId(7));
        reports.on_catalogue_complete(NODE);
        reports.on_lost(NODE);
        assert!(!reports.is_complete(NODE), "what was undecided is forgotten");
    }

    #[test]
    fn each_catalogue_counts_anew_what_finds_no_room() {
        let mut reports = FoundReports::default();
        let mut report = |passed_over: usize| {
            reports.on_catalogue_begun(NODE);
            (0..passed_over).for_each(|_| reports.on_passed_over(NODE));
            let before = reports.passed_over();
            reports.on_catalogue_complete(NODE);
            (before, reports.passed_over())
        };
        assert_eq!([report(3), report(3), report(1), report(0)], [(3, 3), (3, 3), (3, 1), (1, 0)]);
    }
}
