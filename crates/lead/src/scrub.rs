//! A scrub of several nodes: each verifies all its replicas, and reports how many are damaged.
//!
//! It ends when each damaged replica that it found is replaced, or known to have no good copy.

use crate::job_state::JobState;
use crate::node_job::{NodeJob, NodeReport};
use blocks::Work;
use types::NodeId;

pub type Scrub = NodeJob<ScrubReport>;

/// Of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    pub checked_count: u64,
    pub checked_len: u64,
    pub total_count: u64,
    pub total_len: u64,
    pub bad_count: u64,
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubTerms {
    /// That a node reads at most.
    pub len_per_s: u64,
}

impl NodeReport for ScrubReport {
    type Terms = ScrubTerms;

    fn has_ended(&self) -> bool {
        self.ended
    }
}

impl Scrub {
    /// How far it is. `damaged`: nodes with a replica that is known to be damaged, each with whether a good copy may
    /// come; `lost`: nodes that cannot be waited for.
    pub(crate) fn settle(&mut self, damaged: &[(NodeId, bool)], lost: &[NodeId]) -> (Work, JobState) {
        lost.iter().for_each(|node| self.on_lost(*node));
        // What a lost node has is copied from others, whatever it is like.
        let concerned = damaged.iter().filter(|(node, _)| self.concerns(*node) && !lost.contains(node));
        let to_come = concerned.clone().filter(|(_, comes)| *comes).count();
        let damaged = concerned.count() as u64;
        let work = self.work(damaged);
        let state = match (self.is_over(), self.stopping) {
            (false, _) => JobState::Running,
            (true, true) => JobState::Stopped("by an administrator".to_owned()),
            // Those of which there is no good copy would be waited for for ever.
            (true, false) if to_come > 0 => {
                JobState::Waiting(format!("{to_come} damaged replicas are still to be replaced"))
            }
            (true, false) => JobState::Done(self.note(work.found_count, damaged)),
        };
        (work, state)
    }

    /// What people read at the end.
    fn note(&self, found: u64, damaged: u64) -> String {
        let lost = match self.lost().count() {
            0 => String::new(),
            count => format!("; {count} datanodes were lost meanwhile"),
        };
        match (found, damaged) {
            (0, _) => format!("no damage{lost}"),
            (found, 0) => format!("{found} damaged replicas were replaced by good copies{lost}"),
            (found, left) => format!(
                "{} of {found} damaged replicas were replaced; {left} have no good copy that is here, see \
                 under-replicated{lost}",
                found.saturating_sub(left)
            ),
        }
    }

    /// `damaged`: replicas on its nodes that are known to be damaged now, and not replaced.
    fn work(&self, damaged: u64) -> Work {
        let mut work = Work::default();
        for (_, report) in self.reports() {
            work.done_len = work.done_len.saturating_add(report.checked_len);
            work.total_len = work.total_len.saturating_add(report.total_len.max(report.checked_len));
            work.done_count = work.done_count.saturating_add(report.checked_count);
            work.total_count = work.total_count.saturating_add(report.total_count.max(report.checked_count));
            work.found_count = work.found_count.saturating_add(report.bad_count);
        }
        work.mended_count = work.found_count.saturating_sub(damaged);
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_work_is_that_of_all_nodes() {
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut scrub = Scrub::new(1, ScrubTerms::default(), [one, two]);
        let half = ScrubReport {
            checked_count: 1,
            checked_len: 10,
            total_count: 2,
            total_len: 20,
            bad_count: 1,
            ended: false,
        };
        scrub.on_report(one, ScrubReport { ended: true, checked_len: 20, checked_count: 2, ..half });
        scrub.on_report(two, half);
        let work = scrub.work(1);
        assert_eq!((work.done_len, work.total_len, work.found_count, work.mended_count), (30, 40, 2, 1));
    }
}
