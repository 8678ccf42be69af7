//! A job that nodes carry out by themselves, each at its own pace: each node's report, and whether all have ended.
//!
//! Promise: the job is over only when every node has reported its end or is lost. A lost node that returns continues,
//! and the job waits for it again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use types::NodeId;

/// What a node reports of its part, each time the whole of it.
pub trait NodeReport: Clone + Debug + Default {
    /// Terms that each node gets with the order.
    type Terms: Copy + Debug + Default + PartialEq;

    fn has_ended(&self) -> bool;
}

#[derive(Clone, Debug)]
pub struct NodeJob<R: NodeReport> {
    /// By which the nodes know it.
    pub number: u64,
    terms: R::Terms,
    pub(crate) stopping: bool,
    nodes: BTreeMap<NodeId, Part<R>>,
}

#[derive(Clone, Debug, Default)]
struct Part<R> {
    /// The last one.
    report: R,
    lost: bool,
}

/// What a node is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOrder<T> {
    pub number: u64,
    pub terms: T,
    pub stop: bool,
}

impl<R: NodeReport> NodeJob<R> {
    pub fn new(number: u64, terms: R::Terms, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let nodes = nodes.into_iter().map(|node| (node, Part::default())).collect();
        Self { number, terms, stopping: false, nodes }
    }

    /// A node reports its work on the job of this number, or that it does none; returns its order. A node that works on
    /// something it was not ordered to do is ordered to stop.
    pub fn exchange(job: Option<&mut Self>, node: NodeId, report: Option<(u64, R)>) -> Option<NodeOrder<R::Terms>> {
        let Some(job) = job.filter(|job| job.concerns(node)) else {
            let (number, _) = report.filter(|(_, report)| !report.has_ended())?;
            return Some(NodeOrder { number, terms: R::Terms::default(), stop: true });
        };
        if let Some((_, report)) = report.filter(|(number, _)| *number == job.number) {
            job.on_report(node, report);
        }
        Some(NodeOrder { number: job.number, terms: job.terms, stop: job.stopping })
    }

    /// A node that was not asked has no part in it: it could keep it from ending.
    pub fn on_report(&mut self, node: NodeId, report: R) {
        if let Some(part) = self.nodes.get_mut(&node) {
            *part = Part { report, lost: false };
        }
    }

    /// It cannot be waited for.
    pub fn on_lost(&mut self, node: NodeId) {
        if let Some(part) = self.nodes.get_mut(&node) {
            part.lost = !part.report.has_ended();
        }
    }

    pub fn concerns(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    pub fn is_over(&self) -> bool {
        self.nodes.values().all(|part| part.lost || part.report.has_ended())
    }

    /// The last report of each node.
    pub fn reports(&self) -> impl Iterator<Item = (NodeId, &R)> {
        self.nodes.iter().map(|(node, part)| (*node, &part.report))
    }

    /// Those that cannot be waited for.
    pub fn lost(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|(_, part)| part.lost).map(|(node, _)| *node)
    }

    pub fn check(&self) {
        let ended_and_lost = self.nodes.values().any(|part| part.lost && part.report.has_ended());
        assert!(!ended_and_lost, "who has ended cannot be lost: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NodeReport for bool {
        type Terms = u64;

        fn has_ended(&self) -> bool {
            *self
        }
    }

    #[test]
    fn it_is_over_when_all_have_ended_or_are_lost() {
        let [one, two, stranger] = [1, 2, 3].map(|number| NodeId([number; 16]));
        let mut job = NodeJob::new(7, 50, [one, two]);
        let order = |stop| Some(NodeOrder { number: 7, terms: 50, stop });
        assert_eq!(NodeJob::exchange(Some(&mut job), one, Some((7, true))), order(false));
        assert_eq!(NodeJob::exchange(Some(&mut job), two, None), order(false), "it is to begin");
        assert_eq!(NodeJob::exchange(Some(&mut job), two, Some((6, true))), order(false), "that was another job");
        assert!(!job.is_over());
        job.on_lost(one);
        assert_eq!(job.lost().count(), 0, "it had ended");
        job.on_lost(two);
        job.check();
        assert!(job.is_over());
        job.on_report(two, false);
        assert!(!job.is_over(), "it is back, and goes on");
        job.stopping = true;
        assert_eq!(NodeJob::exchange(Some(&mut job), two, Some((7, false))), order(true));
        let stop = NodeOrder { number: 9, terms: 0, stop: true };
        assert_eq!(NodeJob::exchange(Some(&mut job), stranger, Some((9, false))), Some(stop));
        assert_eq!(NodeJob::exchange(Some(&mut job), stranger, Some((9, true))), None);
        assert_eq!(NodeJob::<bool>::exchange(None, one, Some((9, false))), Some(stop));
    }
}
