//! Replicas of deleted blocks, by the nodes that still have to delete them.
//!
//! ```text
//! doomed row (namespace) ──feed──▶ one entry a member of the home ──heartbeat's answer──▶ datanode
//!                                            │ confirmed, or the member is gone
//!                                            ▼
//!                        no member left: the row can be removed
//! ```
//!
//! Promise: a row is offered for removal only when each live member confirmed the deletion, or did not object after
//! several orders. A node that returns later is corrected by its catalogue, so nothing is lost if this memory is.

use crate::cluster::Cluster;
use namespace::DoomedBlock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, NodeId};

/// Rows remembered at a time. With more, trees wait, and so do their rows.
const OWED_COUNT_MAX: usize = 50_000;
/// Rows read at a time.
const PAGE_COUNT: usize = 1000;
/// Orders in one answer: about 160 KB.
const ORDER_COUNT_MAX: usize = 5000;
/// An order is repeated after this, in case an answer was lost.
const REPEAT_AFTER: Duration = Duration::from_secs(3);
/// After so many orders without a confirmation the node has no such replica; its catalogue would show otherwise.
const ORDERS_UNTIL_DONE: u8 = 3;

#[derive(Debug)]
struct Owed {
    generation: Generation,
    ordered: Option<Duration>,
    order_count: u8,
}

/// Deletions that are owed, by node.
#[derive(Debug, Default)]
pub struct Doomed {
    owed: BTreeMap<NodeId, BTreeMap<(BlockId, ContainerId), Owed>>,
    /// Rows not forgotten yet, with the nodes that still owe.
    rows: BTreeMap<(BlockId, ContainerId), Row>,
    forgettable: BTreeSet<DoomedBlock>,
    unread: Unread,
}

/// Rows that may not be in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unread {
    /// Any: those that an earlier leader left, or that there was no room for.
    #[default]
    All,
    /// Those behind this one, which are being read.
    Reading(Option<DoomedBlock>),
    None,
}

/// A page of doomed rows that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoomedPage {
    pub after: Option<DoomedBlock>,
    pub count: usize,
}

#[derive(Debug)]
struct Row {
    generation: Generation,
    pending_nodes: BTreeSet<NodeId>,
}

impl Doomed {
    /// Takes a doomed row up. One that is known at this generation already changes nothing.
    pub fn feed(&mut self, doomed: DoomedBlock, members: &[NodeId]) {
        let key = (doomed.block, doomed.home);
        let waits = self.rows.get(&key).is_some_and(|row| row.generation >= doomed.generation);
        if waits || self.forgettable.contains(&doomed) {
            return;
        }
        if members.is_empty() {
            self.forgettable.insert(doomed);
            return;
        }
        for member in members {
            let owed = Owed { generation: doomed.generation, ordered: None, order_count: 0 };
            self.owed.entry(*member).or_default().insert(key, owed);
        }
        self.rows.insert(key, Row { generation: doomed.generation, pending_nodes: members.iter().copied().collect() });
    }

    /// Some doomed blocks may not be listed here: their rows are read from the beginning.
    pub fn reload(&mut self) {
        self.unread = Unread::All;
    }

    /// Rows that are to be read now, if there are any and there is room for them. The same again until they were.
    pub fn next_page(&mut self) -> Option<DoomedPage> {
        let after = match self.unread {
            Unread::All => None,
            Unread::Reading(after) => after,
            Unread::None => return None,
        };
        if !self.has_room() {
            return None;
        }
        self.unread = Unread::Reading(after);
        Some(DoomedPage { after, count: PAGE_COUNT })
    }

    /// That page was read. What is known already changes nothing.
    pub fn on_page(&mut self, DoomedPage { after, count }: DoomedPage, rows: &[DoomedBlock], cluster: &Cluster) {
        assert!(rows.len() <= count, "{} rows are read at a time", rows.len());
        assert!(rows.first().is_none_or(|first| after < Some(*first)), "rows from {after:?} on were read before");
        rows.iter().for_each(|block| self.feed(*block, cluster.member_ids(block.home)));
        // Otherwise more was doomed meanwhile than there was room for.
        if self.unread == Unread::Reading(after) {
            let last = rows.last().filter(|_| rows.len() == count);
            self.unread = last.map_or(Unread::None, |last| Unread::Reading(Some(*last)));
        }
    }

    /// Rows that are not forgotten yet, including those that can be.
    pub fn len(&self) -> usize {
        self.rows.len() + self.forgettable.len()
    }

    /// False: what is doomed now is taken up from its rows, when others are forgotten.
    pub fn has_room(&self) -> bool {
        self.len() < OWED_COUNT_MAX
    }

    /// Containers whose members still have to delete something.
    pub fn homes(&self) -> BTreeSet<ContainerId> {
        let forgettable = self.forgettable.iter().map(|doomed| doomed.home);
        self.rows.keys().map(|(_, home)| *home).chain(forgettable).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Orders for `node` now.
    pub fn orders(&mut self, node: NodeId, now: Duration) -> Vec<(BlockId, Generation)> {
        let Some(owed) = self.owed.get_mut(&node) else { return Vec::new() };
        let mut orders = Vec::new();
        let mut done = Vec::new();
        for (key, entry) in owed.iter_mut() {
            if entry.ordered.is_some_and(|at| now.saturating_sub(at) < REPEAT_AFTER) {
                continue;
            }
            if entry.order_count >= ORDERS_UNTIL_DONE {
                done.push(*key);
                continue;
            }
            if orders.len() == ORDER_COUNT_MAX {
                break;
            }
            (entry.ordered, entry.order_count) = (Some(now), entry.order_count + 1);
            orders.push((key.0, entry.generation));
        }
        for key in done {
            self.settle(node, key);
        }
        orders
    }

    /// `node` reports that its replica of `block` is deleted. True: it was ordered to.
    pub fn on_deleted(&mut self, node: NodeId, block: BlockId) -> bool {
        let Some(owed) = self.owed.get(&node) else { return false };
        let keys: Vec<_> = owed
            .range((block, ContainerId(0))..=(block, ContainerId(u64::MAX)))
            .filter(|(_, entry)| entry.ordered.is_some())
            .map(|(key, _)| *key)
            .collect();
        let was_ordered = !keys.is_empty();
        for key in keys {
            self.settle(node, key);
        }
        was_ordered
    }

    /// `node` is gone for now and is not waited for.
    pub fn on_lost(&mut self, node: NodeId) {
        for key in self.owed.remove(&node).unwrap_or_default().into_keys() {
            self.settle(node, key);
        }
    }

    /// Nodes that owe something.
    pub fn pending_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.owed.keys().copied()
    }

    /// Takes at most `count_max` rows that can be forgotten.
    pub fn take_forgettable(&mut self, count_max: usize) -> Vec<DoomedBlock> {
        let taken: Vec<_> = self.forgettable.iter().take(count_max).copied().collect();
        for row in &taken {
            self.forgettable.remove(row);
        }
        taken
    }

    /// Pending deletions, by row and by node, agree. Looks at everything.
    pub fn check(&self) {
        for (key, row) in &self.rows {
            assert!(!row.pending_nodes.is_empty(), "{} waits for nobody, and cannot be forgotten", key.0);
            for node in &row.pending_nodes {
                let owed = self.owed.get(node).and_then(|owed| owed.get(key)).map(|owed| owed.generation);
                assert_eq!(owed, Some(row.generation), "{node} owes the deletion of {}", key.0);
            }
        }
        for (node, owed) in &self.owed {
            assert!(!owed.is_empty(), "{node} is listed, and owes nothing");
            for ((block, _), Owed { ordered, order_count, .. }) in owed {
                assert!(*order_count <= ORDERS_UNTIL_DONE, "{node} was ordered to delete {block} {order_count} times");
                assert_eq!(ordered.is_some(), *order_count > 0, "orders to {node} to delete {block}");
            }
        }
    }

    fn settle(&mut self, node: NodeId, key: (BlockId, ContainerId)) {
        if let Some(owed) = self.owed.get_mut(&node) {
            owed.remove(&key);
            if owed.is_empty() {
                self.owed.remove(&node);
            }
        }
        if let Some(row) = self.rows.get_mut(&key) {
            row.pending_nodes.remove(&node);
            if row.pending_nodes.is_empty() {
                self.forgettable.insert(DoomedBlock { block: key.0, home: key.1, generation: row.generation });
                self.rows.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: ContainerId = ContainerId(1);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn doomed(index: u32) -> DoomedBlock {
        DoomedBlock { block: BlockId::new(HOME, index), home: HOME, generation: Generation(1001) }
    }

    #[test]
    fn a_row_is_forgotten_when_all_members_confirmed() {
        let mut queue = Doomed::default();
        queue.feed(doomed(1), &[node(1), node(2)]);
        queue.check();
        queue.feed(doomed(1), &[node(1), node(2)]);
        queue.check();
        let now = Duration::from_secs(1);
        assert_eq!(queue.orders(node(1), now), [(doomed(1).block, Generation(1001))]);
        assert_eq!(queue.orders(node(1), now), [], "not again at once");
        queue.on_deleted(node(1), doomed(1).block);
        queue.check();
        assert_eq!(queue.take_forgettable(10), []);
        assert_eq!(queue.orders(node(2), now).len(), 1);
        queue.on_deleted(node(2), doomed(1).block);
        queue.check();
        assert_eq!(queue.take_forgettable(10), [doomed(1)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_silent_or_lost_member_is_not_waited_for() {
        let mut queue = Doomed::default();
        queue.feed(doomed(1), &[node(1), node(2)]);
        queue.check();
        queue.on_lost(node(2));
        queue.check();
        let ordered_count: usize =
            (0..10).map(|second| queue.orders(node(1), Duration::from_secs(second * 4)).len()).sum();
        queue.check();
        assert_eq!(ordered_count, usize::from(ORDERS_UNTIL_DONE));
        assert_eq!(queue.take_forgettable(10), [doomed(1)]);
    }

    #[test]
    fn a_row_nobody_holds_is_forgotten_at_once() {
        let mut queue = Doomed::default();
        queue.feed(doomed(1), &[]);
        queue.check();
        assert_eq!(queue.take_forgettable(10), [doomed(1)]);
    }

    /// A block went, came back to its container under a younger generation, and went again, while a member left.
    #[test]
    fn a_row_that_is_doomed_again_waits_for_the_members_of_now() {
        let mut queue = Doomed::default();
        let again = DoomedBlock { generation: Generation(1002), ..doomed(1) };
        for (row, members) in
            [(doomed(1), [node(1), node(2)]), (again, [node(2), node(3)]), (doomed(1), [node(1), node(3)])]
        {
            queue.feed(row, &members);
            queue.check();
        }
        let now = Duration::from_secs(1);
        for (number, generation) in [(1, 1001), (2, 1002), (3, 1002)] {
            assert_eq!(queue.orders(node(number), now), [(doomed(1).block, Generation(generation))]);
            queue.on_deleted(node(number), doomed(1).block);
            queue.check();
        }
        assert_eq!(queue.take_forgettable(10), [again]);
    }
}
