//! A scrub of several nodes: each reads all its replicas, and says how many are damaged.
//!
//! Promise: each damaged replica that it found is replaced at its end, or known to have no good copy
//! ([`Leader::settle_scrub`](crate::Leader::settle_scrub)).

use crate::node_job::{NodeJob, NodeReport};
use blocks::Work;

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
    /// `damaged`: replicas on its nodes that are known to be damaged now, and not replaced.
    pub fn work(&self, damaged: u64) -> Work {
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
    use types::NodeId;

    #[test]
    fn its_work_is_that_of_all_nodes() {
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut scrub = Scrub::new(1, 1, ScrubTerms::default(), [one, two]);
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
