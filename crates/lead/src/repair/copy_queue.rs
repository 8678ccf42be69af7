//! Replicas to copy, by the node that lacks them, and which of these copies are ordered.
//!
//! ```text
//!  insert ──▶ waiting ──orders(node), fewest sources first──▶ ordered ──▶ put, or failed: removed
//!                ▲                                               │
//!                └────── the node no longer works on it ─────────┘
//! ```
//!
//! Promise: a node is ordered to copy a block once at a time. Orders are bounded in blocks and bytes for each node that
//! copies, and in bytes for each node that is read. The whole cluster has a bound in blocks.

use super::replica_keys::of_node;
use crate::tally::Tally;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId, FileId, Generation, NodeId};

/// Blocks that a node copies at a time. With small ones it must not wait for the next order.
const ORDERED_COUNT_MAX: u64 = 400;
/// Bytes that a node copies at a time, but one block at least.
const ORDERED_LEN_MAX: u64 = 256 << 20;
/// Bytes that others read from one node at a time, but one block at least.
const SOURCE_LEN_MAX: u64 = 512 << 20;
/// Blocks ordered in the whole cluster: the leader gets a report of each.
const TOTAL_COUNT_MAX: u64 = 20_000;
/// Lacks remembered. With more, containers wait until they are compared.
const LACK_COUNT_MAX: usize = 50_000;
/// An order is given again if its node does not list it as under way for so long.
const ORDER_LOST_AFTER: Duration = Duration::from_secs(5);
/// Copies remembered that nodes could not put.
const REFUSED_COUNT_MAX: usize = 50_000;

/// A replica that a node should have and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub file: FileId,
    pub home: ContainerId,
    pub node: NodeId,
    /// Nodes that reported that they have it.
    pub sources: Vec<NodeId>,
    /// The node has one of this generation that is not fit to be read: it is replaced by the copy.
    pub unfit: bool,
}

/// An order to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCopy {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub file: FileId,
    pub home: ContainerId,
    /// The one to read first comes first.
    pub sources: Vec<NodeId>,
    pub unfit: bool,
}

#[derive(Debug)]
struct Task {
    lack: Lack,
    /// Ordered when, and to be read from which node.
    ordered: Option<(Duration, NodeId)>,
}

/// A copy that is queued no longer.
#[derive(Debug)]
pub(super) struct Removed {
    pub(super) lack: Lack,
    /// No other copy of its container is queued.
    pub(super) is_last: bool,
}

/// What the copies that have ended came to, since this process leads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    pub(super) copied_count: u64,
    pub(super) copied_len: u64,
    pub(super) failed_count: u64,
}

#[derive(Debug, Default)]
pub(super) struct CopyQueue {
    tasks: BTreeMap<(NodeId, BlockId), Task>,
    /// Of each node what is not ordered: those with the fewest sources first.
    waiting: BTreeMap<NodeId, BTreeSet<(usize, BlockId)>>,
    lack_count_of: Tally<ContainerId>,
    lack_len_of: Tally<ContainerId>,
    lack_len_to: Tally<NodeId>,
    copies_of: Tally<(ContainerId, BlockId)>,
    ordered_count_to: Tally<NodeId>,
    ordered_len_to: Tally<NodeId>,
    ordered_len_from: Tally<NodeId>,
    /// Copies that a node could not put, through no fault of a source, and their bytes: until it has put them, or has
    /// no need to.
    refused: BTreeMap<(NodeId, BlockId), (ContainerId, u64)>,
    /// The number of the last failure that each node reported.
    last_failure_of: BTreeMap<NodeId, u64>,
    ended: Ended,
}

impl CopyQueue {
    /// True: it is new.
    pub(super) fn insert(&mut self, lack: Lack) -> bool {
        assert!(!lack.sources.is_empty(), "{} has no source: it is missing", lack.block);
        let key = (lack.node, lack.block);
        if self.tasks.contains_key(&key) {
            return false;
        }
        self.lack_count_of.add(lack.home, 1);
        self.lack_len_of.add(lack.home, lack.len);
        self.lack_len_to.add(lack.node, lack.len);
        self.copies_of.add((lack.home, lack.block), 1);
        self.waiting.entry(lack.node).or_default().insert((lack.sources.len(), lack.block));
        self.tasks.insert(key, Task { lack, ordered: None });
        true
    }

    fn remove(&mut self, node: NodeId, block: BlockId) -> Option<Removed> {
        let Task { lack, ordered } = self.tasks.remove(&(node, block))?;
        match ordered {
            Some((_, source)) => self.count_order_back(&lack, source),
            None => self.stop_waiting(node, (lack.sources.len(), block)),
        }
        self.lack_count_of.take(lack.home, 1);
        self.lack_len_of.take(lack.home, lack.len);
        self.lack_len_to.take(node, lack.len);
        self.copies_of.take((lack.home, block), 1);
        let is_last = !self.lack_count_of.has(lack.home);
        Some(Removed { lack, is_last })
    }

    fn stop_waiting(&mut self, node: NodeId, entry: (usize, BlockId)) {
        let waiting = self.waiting.get_mut(&node).expect("a copy that is not ordered waits");
        let did_wait = waiting.remove(&entry);
        assert!(did_wait, "a copy of {} that is not ordered waits", entry.1);
        if waiting.is_empty() {
            self.waiting.remove(&node);
        }
    }

    fn count_order_back(&mut self, lack: &Lack, source: NodeId) {
        self.ordered_count_to.take(lack.node, 1);
        self.ordered_len_to.take(lack.node, lack.len);
        self.ordered_len_from.take(source, lack.len);
    }

    /// What `node` is to copy now.
    pub(super) fn orders(&mut self, node: NodeId, now: Duration) -> Vec<PlannedCopy> {
        let Some(mut waiting) = self.waiting.remove(&node) else { return Vec::new() };
        let mut orders = Vec::new();
        let mut passed = Vec::new();
        loop {
            let (count, len) = (self.ordered_count_to.get(node), self.ordered_len_to.get(node));
            if count >= ORDERED_COUNT_MAX
                || self.ordered_count_to.total() >= TOTAL_COUNT_MAX
                || passed.len() as u64 >= ORDERED_COUNT_MAX
            {
                break;
            }
            let Some(next) = waiting.pop_first() else { break };
            let task = self.tasks.get_mut(&(node, next.1)).expect("a copy that waits is queued");
            let block_len = task.lack.len;
            let busy = |source: &NodeId| self.ordered_len_from.get(*source);
            // Spread, and by number where all are idle, so that a test can predict the choice.
            task.lack.sources.sort_by_key(|source| (busy(source), *source));
            let source = task.lack.sources[0];
            let too_much = count > 0 && len + block_len > ORDERED_LEN_MAX;
            let from_busy = busy(&source) > 0 && busy(&source) + block_len > SOURCE_LEN_MAX;
            if too_much || from_busy {
                passed.push(next);
                if too_much {
                    break;
                }
                continue;
            }
            task.ordered = Some((now, source));
            let Lack { block, generation, len, file, home, ref sources, unfit, .. } = task.lack;
            orders.push(PlannedCopy { block, generation, len, file, home, sources: sources.clone(), unfit });
            self.ordered_count_to.add(node, 1);
            self.ordered_len_to.add(node, len);
            self.ordered_len_from.add(source, len);
        }
        waiting.extend(passed);
        if !waiting.is_empty() {
            self.waiting.insert(node, waiting);
        }
        orders
    }

    /// `node` has put the block at this generation.
    pub(super) fn on_put(&mut self, node: NodeId, block: BlockId, generation: Generation) -> Option<Removed> {
        self.refused.remove(&(node, block));
        if self.tasks.get(&(node, block))?.lack.generation > generation {
            return None;
        }
        let removed = self.remove(node, block)?;
        self.ended.copied_count += 1;
        self.ended.copied_len += removed.lack.len;
        Some(removed)
    }

    /// `node` could not copy. If it names a source, that one is not read again for this block. Answers the copy if
    /// there is no other source to try.
    pub(super) fn on_failed(&mut self, node: NodeId, block: BlockId, source: Option<NodeId>) -> Option<Removed> {
        let mut removed = self.remove(node, block)?;
        self.ended.failed_count += 1;
        match source {
            Some(source) => {
                removed.lack.sources.retain(|id| *id != source);
                if !removed.lack.sources.is_empty() {
                    self.insert(removed.lack);
                    return None;
                }
            }
            None if self.refused.len() < REFUSED_COUNT_MAX => {
                self.refused.insert((node, block), (removed.lack.home, removed.lack.len));
            }
            None => {}
        }
        Some(removed)
    }

    /// The blocks that `node` copies, or has yet to copy: orders that are not among these were lost.
    pub(super) fn on_working(&mut self, node: NodeId, blocks: &BTreeSet<BlockId>, now: Duration) {
        let is_lost = |block: &BlockId, task: &Task| {
            task.ordered.is_some_and(|(at, _)| now.saturating_sub(at) > ORDER_LOST_AFTER) && !blocks.contains(block)
        };
        let of_node = self.tasks.range(of_node(node));
        let lost = of_node.filter(|((_, block), task)| is_lost(block, task)).map(|((_, block), _)| *block);
        for block in lost.collect::<Vec<_>>() {
            let Some(removed) = self.remove(node, block) else { continue };
            self.insert(removed.lack);
        }
    }

    /// Removes what `node` lacks of these containers.
    pub(super) fn remove_of(&mut self, node: NodeId, is_of: impl Fn(ContainerId) -> bool) -> Vec<Removed> {
        let of_node = self.tasks.range(of_node(node));
        let these = of_node.filter(|(_, task)| is_of(task.lack.home)).map(|((_, block), _)| *block);
        these.collect::<Vec<_>>().into_iter().filter_map(|block| self.remove(node, block)).collect()
    }

    /// `node` is no member of these containers any more.
    pub(super) fn forget_refused_by(&mut self, node: NodeId, has_left: impl Fn(ContainerId) -> bool) {
        self.refused.extract_if(of_node(node), |_, (home, _)| has_left(*home)).for_each(drop);
    }

    /// `home` is whole: no node has to put what it could not.
    pub(super) fn forget_refused_of(&mut self, home: ContainerId) {
        self.refused.retain(|_, (of, _)| *of != home);
    }

    /// The number of a failure that `node` reports. False: it was reported before.
    pub(super) fn is_news(&mut self, node: NodeId, number: u64) -> bool {
        let last = self.last_failure_of.entry(node).or_default();
        let is_news = number > *last;
        *last = number.max(*last);
        is_news
    }

    /// `node` has started anew, and counts its failures from the beginning.
    pub(super) fn forget_failures(&mut self, node: NodeId) {
        self.last_failure_of.remove(&node);
    }

    pub(super) fn contains(&self, node: NodeId, block: BlockId) -> bool {
        self.tasks.contains_key(&(node, block))
    }

    /// Whether the block is being copied for `home`.
    pub(super) fn is_copied_to(&self, home: ContainerId, block: BlockId) -> bool {
        self.copies_of.has((home, block))
    }

    /// No more lacks should be brought just now.
    pub(super) fn is_full(&self) -> bool {
        self.tasks.len() >= LACK_COUNT_MAX
    }

    /// Something of `home` is still to be copied.
    pub(super) fn has_lacks_of(&self, home: ContainerId) -> bool {
        self.lack_count_of.has(home)
    }

    pub(super) fn lack_len_of(&self, home: ContainerId) -> u64 {
        self.lack_len_of.get(home)
    }

    pub(super) fn lack_len_to(&self, node: NodeId) -> u64 {
        self.lack_len_to.get(node)
    }

    /// Bytes that `node` needs room for: what is not ordered yet, or what it could not put.
    pub(super) fn needed_len_on(&self, node: NodeId) -> u64 {
        let (len, ordered_len) = (self.lack_len_to.get(node), self.ordered_len_to.get(node));
        let unordered = len.checked_sub(ordered_len).expect("what is ordered is lacking");
        unordered.max(self.refused_by(node).fold(0, |sum, (_, len)| sum.saturating_add(len)))
    }

    fn refused_by(&self, node: NodeId) -> impl Iterator<Item = (ContainerId, u64)> + '_ {
        self.refused.range(of_node(node)).map(|(_, refused)| *refused)
    }

    /// Containers of which `node` is known to lack something.
    pub(super) fn lacked_by(&self, node: NodeId) -> BTreeSet<ContainerId> {
        let lacked = self.tasks.range(of_node(node)).map(|(_, task)| task.lack.home);
        lacked.chain(self.refused_by(node).map(|(home, _)| home)).collect()
    }

    /// In order of node and block.
    pub(super) fn lacks(&self) -> impl Iterator<Item = &Lack> {
        self.tasks.values().map(|task| &task.lack)
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn lack_len(&self) -> u64 {
        self.lack_len_of.total()
    }

    pub(super) fn ordered_count(&self) -> u64 {
        self.ordered_count_to.total()
    }

    pub(super) fn block_count(&self) -> usize {
        self.copies_of.key_count()
    }

    pub(super) fn ended(&self) -> Ended {
        self.ended
    }

    pub(super) fn check(&self) {
        let lacks = || self.tasks.values().map(|task| &task.lack);
        let orders = || self.tasks.values().filter_map(|task| Some((&task.lack, task.ordered?.1)));
        for ((node, block), task) in &self.tasks {
            assert_eq!((task.lack.node, task.lack.block), (*node, *block), "a copy is found by its node and block");
            assert!(!task.lack.sources.is_empty(), "{block} has no source: it is missing");
        }
        let mut waiting: BTreeMap<NodeId, BTreeSet<(usize, BlockId)>> = BTreeMap::new();
        for Task { lack, .. } in self.tasks.values().filter(|task| task.ordered.is_none()) {
            waiting.entry(lack.node).or_default().insert((lack.sources.len(), lack.block));
        }
        assert_eq!(self.waiting, waiting, "what is not ordered waits");
        let count_of = lacks().map(|lack| (lack.home, 1)).collect();
        assert_eq!(self.lack_count_of, count_of, "lacks of each container");
        let len_of = lacks().map(|lack| (lack.home, lack.len)).collect();
        assert_eq!(self.lack_len_of, len_of, "bytes to copy of each container");
        let len_to = lacks().map(|lack| (lack.node, lack.len)).collect();
        assert_eq!(self.lack_len_to, len_to, "bytes to copy to each node");
        let copies = lacks().map(|lack| ((lack.home, lack.block), 1)).collect();
        assert_eq!(self.copies_of, copies, "copies of each block");
        let count_to = orders().map(|(lack, _)| (lack.node, 1)).collect();
        assert_eq!(self.ordered_count_to, count_to, "orders of each node");
        let ordered_to = orders().map(|(lack, _)| (lack.node, lack.len)).collect();
        assert_eq!(self.ordered_len_to, ordered_to, "bytes ordered to each node");
        let ordered_from = orders().map(|(lack, source)| (source, lack.len)).collect();
        assert_eq!(self.ordered_len_from, ordered_from, "bytes ordered from each node");
        self.check_limits();
    }

    /// One block may be longer than the limit; then it is the only one that has bytes.
    fn check_limits(&self) {
        let (mut longest_to, mut longest_from) = (BTreeMap::new(), BTreeMap::new());
        for Task { lack, ordered } in self.tasks.values() {
            let Some((_, source)) = ordered else { continue };
            for (longest, node) in [(&mut longest_to, lack.node), (&mut longest_from, *source)] {
                let longest = longest.entry(node).or_insert(0);
                *longest = lack.len.max(*longest);
            }
        }
        assert!(self.ordered_count() <= TOTAL_COUNT_MAX, "{} copies are ordered", self.ordered_count());
        for (node, longest) in longest_to {
            let (count, len) = (self.ordered_count_to.get(node), self.ordered_len_to.get(node));
            assert!(count <= ORDERED_COUNT_MAX, "{node} is ordered to copy {count} blocks");
            assert!(len <= ORDERED_LEN_MAX.max(longest), "{node} is ordered to copy {len} bytes");
        }
        for (node, longest) in longest_from {
            let len = self.ordered_len_from.get(node);
            assert!(len <= SOURCE_LEN_MAX.max(longest), "{len} bytes are ordered from {node}");
        }
        assert!(self.refused.len() <= REFUSED_COUNT_MAX, "{} refused copies are remembered", self.refused.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    const HOME: ContainerId = ContainerId(1);
    const MB: u64 = 1 << 20;

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn lack(index: u32, to: u8, sources: &[u8], len: u64) -> Lack {
        Lack {
            block: block(index),
            generation: Generation(5),
            len,
            file: InodeId(20_000),
            home: HOME,
            node: node(to),
            sources: sources.iter().map(|number| node(*number)).collect(),
            unfit: false,
        }
    }

    /// A queue that is checked after each event.
    #[derive(Default)]
    struct Checked(CopyQueue);

    impl Checked {
        fn on<T>(&mut self, event: impl FnOnce(&mut CopyQueue) -> T) -> T {
            let answer = event(&mut self.0);
            self.0.check();
            answer
        }

        /// Indexes of the blocks, in order.
        fn orders(&mut self, to: u8, second: u64) -> Vec<u32> {
            self.on(|queue| queue.orders(node(to), at(second))).iter().map(|copy| copy.block.index()).collect()
        }
    }

    #[test]
    fn blocks_with_the_fewest_sources_are_copied_first_and_once() {
        let mut queue = Checked::default();
        for (index, sources) in [(1, &[2, 3][..]), (2, &[2]), (3, &[2, 3])] {
            assert!(queue.on(|queue| queue.insert(lack(index, 1, sources, MB))));
        }
        assert!(!queue.on(|queue| queue.insert(lack(2, 1, &[3], MB))), "it is queued");
        assert_eq!(queue.orders(1, 0), [2, 1, 3]);
        assert_eq!(queue.orders(1, 0), []);
        let removed = queue.on(|queue| queue.on_put(node(1), block(2), Generation(5))).expect("it was ordered");
        assert!(!removed.is_last);
        assert!(queue.on(|queue| queue.on_put(node(1), block(1), Generation(4))).is_none(), "an older one");
        queue.on(|queue| queue.on_put(node(1), block(1), Generation(6))).expect("a younger one will do");
        assert!(queue.on(|queue| queue.on_put(node(1), block(3), Generation(5))).is_some_and(|last| last.is_last));
        assert_eq!((queue.0.ended().copied_count, queue.0.ended().copied_len, queue.0.len()), (3, 3 * MB, 0));
    }

    #[test]
    fn orders_are_bounded_by_node_and_by_source() {
        let mut queue = Checked::default();
        (0..500).for_each(|index| _ = queue.on(|queue| queue.insert(lack(index, 1, &[9], 0))));
        assert_eq!(queue.orders(1, 0).len(), 400, "blocks without bytes");
        for to in 2..=4 {
            (0..3).for_each(|index| _ = queue.on(|queue| queue.insert(lack(index, to, &[8], 100 * MB))));
        }
        assert_eq!([2, 3, 4].map(|to| queue.orders(to, 0).len()), [2, 2, 1], "bytes of each, and from their source");
        queue.on(|queue| queue.insert(lack(0, 5, &[7], 1000 * MB)));
        queue.on(|queue| queue.insert(lack(1, 5, &[7], 1)));
        assert_eq!(queue.orders(5, 0), [0], "one block, however long it is");
    }

    #[test]
    fn a_copy_that_fails_is_tried_from_another_source() {
        let mut queue = Checked::default();
        queue.on(|queue| queue.insert(lack(1, 1, &[2, 3], MB)));
        queue.orders(1, 0);
        let fail = |queue: &mut Checked, source: Option<u8>| {
            queue.on(|queue| queue.on_failed(node(1), block(1), source.map(node))).map(|failed| failed.is_last)
        };
        assert_eq!(fail(&mut queue, Some(2)), None);
        let orders = queue.on(|queue| queue.orders(node(1), at(1)));
        assert_eq!(orders[0].sources, [node(3)]);
        assert_eq!(fail(&mut queue, Some(3)), Some(true));
        assert_eq!(fail(&mut queue, Some(3)), None, "it is not queued");
        assert_eq!((queue.0.ended().failed_count, queue.0.needed_len_on(node(1))), (2, 0));
    }

    #[test]
    fn a_node_needs_room_for_what_it_could_not_put() {
        let mut queue = Checked::default();
        queue.on(|queue| queue.insert(lack(1, 1, &[2], 5)));
        queue.on(|queue| queue.insert(lack(2, 1, &[2], 3)));
        assert_eq!(queue.0.needed_len_on(node(1)), 8);
        queue.orders(1, 0);
        assert_eq!(queue.0.needed_len_on(node(1)), 0, "what is ordered has its room");
        queue.on(|queue| queue.on_failed(node(1), block(1), None)).expect("no source is to blame");
        assert_eq!((queue.0.needed_len_on(node(1)), queue.0.lacked_by(node(1))), (5, BTreeSet::from([HOME])));
        queue.on(|queue| queue.forget_refused_by(node(2), |_| true));
        queue.on(|queue| queue.forget_refused_of(ContainerId(2)));
        assert_eq!(queue.0.needed_len_on(node(1)), 5);
        queue.on(|queue| queue.on_put(node(1), block(1), Generation(5)));
        assert_eq!(queue.0.needed_len_on(node(1)), 0);
    }

    #[test]
    fn an_order_that_its_node_does_not_list_is_given_again() {
        let mut queue = Checked::default();
        (1..=2).for_each(|index| _ = queue.on(|queue| queue.insert(lack(index, 1, &[2], 5))));
        assert_eq!(queue.orders(1, 0), [1, 2]);
        let lists = BTreeSet::from([block(1)]);
        queue.on(|queue| queue.on_working(node(1), &lists, at(5)));
        assert_eq!(queue.orders(1, 5), [], "the answer may be on its way");
        queue.on(|queue| queue.on_working(node(1), &lists, at(6)));
        assert_eq!(queue.orders(1, 6), [2]);
    }

    #[test]
    fn copies_end_with_the_membership() {
        let mut queue = Checked::default();
        queue.on(|queue| queue.insert(lack(1, 1, &[2], 5)));
        queue.on(|queue| queue.insert(Lack { home: ContainerId(2), ..lack(2, 1, &[2], 5) }));
        queue.orders(1, 0);
        let removed = queue.on(|queue| queue.remove_of(node(1), |home| home == HOME));
        assert_eq!(removed.iter().map(|gone| (gone.lack.block, gone.is_last)).collect::<Vec<_>>(), [(block(1), true)]);
        assert!(queue.0.contains(node(1), block(2)) && queue.0.is_copied_to(ContainerId(2), block(2)));
        assert_eq!(queue.on(|queue| queue.remove_of(node(1), |_| true)).len(), 1);
        assert_eq!((queue.0.len(), queue.0.block_count(), queue.0.lack_len()), (0, 0, 0));
    }

    #[test]
    fn a_failure_counts_once() {
        let mut queue = CopyQueue::default();
        assert!(queue.is_news(node(1), 1) && !queue.is_news(node(1), 1) && queue.is_news(node(1), 3));
        queue.forget_failures(node(1));
        assert!(queue.is_news(node(1), 1));
    }
}
