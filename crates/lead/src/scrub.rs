//! A scrub of several nodes: who has read how much, and when all of it is over.
//!
//! Promise: it has ended only when every node has said so or is lost, and each damaged replica it found is replaced, or
//! known to have no good copy.

use blocks::Work;
use std::collections::{BTreeMap, BTreeSet};
use types::NodeId;

/// What a node said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    pub checked_count: u64,
    pub checked_len: u64,
    pub total_count: u64,
    pub total_len: u64,
    pub bad_count: u64,
    pub ended: bool,
}

#[derive(Clone, Debug)]
pub struct Scrub {
    /// By which the nodes know it.
    pub number: u64,
    /// The job that shows it.
    pub job: u64,
    /// Of each node.
    pub len_per_s: u64,
    pub stopping: bool,
    nodes: BTreeMap<NodeId, Scrubbed>,
    lost: BTreeSet<NodeId>,
}

impl Scrub {
    pub fn new(number: u64, job: u64, len_per_s: u64, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let nodes = nodes.into_iter().map(|node| (node, Scrubbed::default())).collect();
        Self { number, job, len_per_s, stopping: false, nodes, lost: BTreeSet::new() }
    }

    /// A node that was not asked has no part in it: it could keep it from ending.
    pub fn on_report(&mut self, node: NodeId, scrubbed: Scrubbed) {
        if let Some(known) = self.nodes.get_mut(&node) {
            *known = scrubbed;
            self.lost.remove(&node);
        }
    }

    /// It cannot be waited for.
    pub fn on_lost(&mut self, node: NodeId) {
        if self.nodes.get(&node).is_some_and(|scrubbed| !scrubbed.ended) {
            self.lost.insert(node);
        }
    }

    pub fn concerns(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.keys().copied()
    }

    pub fn lost_count(&self) -> usize {
        self.lost.len()
    }

    /// All has been read that can be.
    pub fn is_read(&self) -> bool {
        self.nodes.iter().all(|(node, scrubbed)| scrubbed.ended || self.lost.contains(node))
    }

    /// `damaged`: replicas on its nodes that are known to be damaged now, and not replaced.
    pub fn work(&self, damaged: u64) -> Work {
        let mut work = Work::default();
        for scrubbed in self.nodes.values() {
            work.done_len = work.done_len.saturating_add(scrubbed.checked_len);
            work.total_len = work.total_len.saturating_add(scrubbed.total_len.max(scrubbed.checked_len));
            work.done_count = work.done_count.saturating_add(scrubbed.checked_count);
            work.total_count = work.total_count.saturating_add(scrubbed.total_count.max(scrubbed.checked_count));
            work.found_count = work.found_count.saturating_add(scrubbed.bad_count);
        }
        work.mended_count = work.found_count.saturating_sub(damaged);
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_is_over_when_all_have_read_or_are_lost() {
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut scrub = Scrub::new(1, 1, 0, [one, two]);
        let half =
            Scrubbed { checked_count: 1, checked_len: 10, total_count: 2, total_len: 20, bad_count: 1, ended: false };
        scrub.on_report(one, Scrubbed { ended: true, checked_len: 20, checked_count: 2, ..half });
        scrub.on_report(two, half);
        assert!(!scrub.is_read());
        scrub.on_lost(one);
        assert_eq!(scrub.lost_count(), 0, "it had ended");
        scrub.on_lost(two);
        assert!(scrub.is_read());
        let work = scrub.work(1);
        assert_eq!((work.done_len, work.total_len, work.found_count, work.mended_count), (30, 40, 2, 1));
        scrub.on_report(two, half);
        assert!(!scrub.is_read(), "it is back, and goes on");
    }
}
