//! Disks of several nodes become even: who has moved how much, and when all of it is over.
//!
//! Promise: it has ended only when every node has said so or is lost; nodes move replicas among their own disks, so
//! they do not wait for each other.

use blocks::Work;
use std::collections::BTreeMap;
use types::NodeId;

/// What a node said last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levelled {
    pub done_count: u64,
    pub done_len: u64,
    pub total_len: u64,
    /// Damaged replicas, which stay where they are.
    pub failed_count: u64,
    pub ended: bool,
    /// Why it ended early; empty if its disks are even.
    pub note: String,
}

#[derive(Clone, Debug)]
pub struct DiskBalance {
    /// By which the nodes know it.
    pub number: u64,
    /// The job that shows it.
    pub job: u64,
    /// Of each node.
    pub len_per_s: u64,
    /// How far the fullness of a disk may be from that of all disks of its node, of [`FULL_PARTS`](crate::FULL_PARTS).
    pub within: u64,
    pub stopping: bool,
    nodes: BTreeMap<NodeId, (Levelled, bool)>,
}

impl DiskBalance {
    pub fn new(number: u64, job: u64, len_per_s: u64, within: u64, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let nodes = nodes.into_iter().map(|node| (node, Default::default())).collect();
        Self { number, job, len_per_s, within, stopping: false, nodes }
    }

    /// A node that was not asked has no part in it: it could keep it from ending.
    pub fn on_report(&mut self, node: NodeId, levelled: Levelled) {
        if let Some(known) = self.nodes.get_mut(&node) {
            *known = (levelled, false);
        }
    }

    /// It cannot be waited for, unless it comes back.
    pub fn on_lost(&mut self, node: NodeId) {
        if let Some((levelled, lost)) = self.nodes.get_mut(&node) {
            *lost = !levelled.ended;
        }
    }

    pub fn concerns(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    pub fn has_ended(&self) -> bool {
        self.nodes.values().all(|(levelled, lost)| levelled.ended || *lost)
    }

    pub fn work(&self) -> Work {
        let mut work = Work::default();
        for (levelled, _) in self.nodes.values() {
            work.done_len = work.done_len.saturating_add(levelled.done_len);
            // What was planned and is not needed any more is not left to do.
            let ended = if levelled.ended { levelled.done_len } else { levelled.total_len };
            work.total_len = work.total_len.saturating_add(ended.max(levelled.done_len));
            work.done_count = work.done_count.saturating_add(levelled.done_count);
        }
        work.total_count = work.done_count;
        work
    }

    /// What people are told at the end.
    pub fn note(&self) -> String {
        let work = self.work();
        let mut note = match work.done_count {
            0 => "the disks are near enough to each other".to_owned(),
            1 => "1 replica was moved, and read back where it is now".to_owned(),
            count => format!("{count} replicas were moved, and read back where they are now"),
        };
        let failed = types::len::total(self.nodes.values().map(|(levelled, _)| levelled.failed_count));
        if failed > 0 {
            note += &format!("; {failed} damaged ones stay where they are until they are replaced");
        }
        for (node, (levelled, lost)) in &self.nodes {
            if *lost {
                note += &format!("; {node} was lost meanwhile");
            } else if !levelled.note.is_empty() {
                note += &format!("; {node}: {}", levelled.note);
            }
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_when_all_have_said_so_or_are_lost() {
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut balance = DiskBalance::new(1, 1, 0, 0, [one, two]);
        let half = Levelled { done_count: 3, done_len: 30, total_len: 100, ..Levelled::default() };
        balance.on_report(one, half.clone());
        balance.on_report(two, Levelled { ended: true, note: "a disk is full".to_owned(), ..half.clone() });
        assert!(!balance.has_ended());
        let work = balance.work();
        assert_eq!((work.done_len, work.total_len, work.done_count), (60, 130, 6));
        balance.on_lost(two);
        balance.on_lost(one);
        assert!(balance.has_ended());
        let note = balance.note();
        assert!(note.starts_with("6 replicas") && note.contains("was lost") && note.contains("is full"), "{note}");
        balance.on_report(one, half);
        assert!(!balance.has_ended(), "it is back, and goes on");
    }
}
