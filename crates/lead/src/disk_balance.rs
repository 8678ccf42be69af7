//! A job that balances the disks of several nodes. Each node moves replicas among its own disks, so no node waits for
//! another one.

use crate::job_state::JobState;
use crate::node_job::{NodeJob, NodeReport};
use blocks::Work;
use types::NodeId;

pub type DiskBalance = NodeJob<DiskBalanceReport>;

/// Of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskBalanceReport {
    pub done_count: u64,
    pub done_len: u64,
    pub total_len: u64,
    /// Damaged replicas, which stay where they are.
    pub failed_count: u64,
    pub ended: bool,
    /// Why it ended early; empty if its disks are even.
    pub note: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskBalanceTerms {
    /// That a node moves at most.
    pub len_per_s: u64,
    /// How far the fullness of a disk may be from that of all disks of its node, of [`FULL_PARTS`](crate::FULL_PARTS).
    pub within: u64,
}

impl NodeReport for DiskBalanceReport {
    type Terms = DiskBalanceTerms;

    fn has_ended(&self) -> bool {
        self.ended
    }
}

impl DiskBalance {
    /// How far it is. `lost`: nodes that cannot be waited for.
    pub(crate) fn settle(&mut self, lost: &[NodeId]) -> (Work, JobState) {
        lost.iter().for_each(|node| self.on_lost(*node));
        let state = match (self.is_over(), self.stopping) {
            (false, _) => JobState::Running,
            (true, true) => JobState::Stopped(format!("by an administrator; {}", self.note())),
            (true, false) => JobState::Done(self.note()),
        };
        (self.work(), state)
    }

    fn work(&self) -> Work {
        let mut work = Work::default();
        for (_, report) in self.reports() {
            work.done_len = work.done_len.saturating_add(report.done_len);
            // What was planned and is not needed any more is not left to do.
            let ended = if report.ended { report.done_len } else { report.total_len };
            work.total_len = work.total_len.saturating_add(ended.max(report.done_len));
            work.done_count = work.done_count.saturating_add(report.done_count);
        }
        work.total_count = work.done_count;
        work
    }

    /// What people read at the end.
    fn note(&self) -> String {
        let mut note = match self.work().done_count {
            0 => "the disks are near enough to each other".to_owned(),
            1 => "1 replica was moved, and read back where it is now".to_owned(),
            count => format!("{count} replicas were moved, and read back where they are now"),
        };
        let failed = types::len::total(self.reports().map(|(_, report)| report.failed_count));
        if failed > 0 {
            note += &format!("; {failed} damaged ones stay where they are until they are replaced");
        }
        for node in self.lost() {
            note += &format!("; {node} was lost meanwhile");
        }
        for (node, report) in self.reports().filter(|(_, report)| !report.note.is_empty()) {
            note += &format!("; {node}: {}", report.note);
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_work_and_its_note_are_of_all_nodes() {
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut balance = DiskBalance::new(1, DiskBalanceTerms::default(), [one, two]);
        let half = DiskBalanceReport { done_count: 3, done_len: 30, total_len: 100, ..DiskBalanceReport::default() };
        balance.on_report(one, half.clone());
        balance.on_report(two, DiskBalanceReport { ended: true, note: "a disk is full".to_owned(), ..half });
        let work = balance.work();
        assert_eq!((work.done_len, work.total_len, work.done_count), (60, 130, 6));
        balance.on_lost(one);
        let note = balance.note();
        assert!(note.starts_with("6 replicas") && note.contains("was lost") && note.contains("is full"), "{note}");
    }
}
