//! Copies of replicas that the metadata server ordered, until they are put or have failed.
//!
//! ```text
//! orders ──▶ waiting ──▶ a few workers: copy ──▶ finish ──▶ told as put
//!                           │                       └ failed ──▶ reported for some seconds
//!                           └ one that waits for a disk is followed by another
//! ```
//!
//! Workers are there while there is something to copy. One whose disk was given up is written off: its order counts as
//! lost, so that the metadata server gives it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::BlockId;
use wire::node::{CopyFailure, CopyOrder};

/// Replicas copied at a time, unless it is configured. A guess.
pub const COPY_COUNT_MAX: usize = 4;
/// Orders that wait. The metadata server gives some hundred at a time, and the rest again.
const WAITING_COUNT_MAX: usize = 4000;
/// A failure is reported for so long: several heartbeats, should an answer be lost or the leader change.
const REPORTED_FOR: Duration = Duration::from_secs(5);
/// Failures that are reported at a time.
const REPORT_COUNT_MAX: usize = 1000;

#[derive(Debug, Default)]
pub struct Copies {
    waiting: VecDeque<CopyOrder>,
    /// Waiting or under way.
    known: BTreeSet<BlockId>,
    /// By their numbers, each with what it is at. One that was written off is not among them.
    workers: BTreeMap<u64, Option<Work>>,
    /// Counts workers.
    begun_count: u64,
    failures: VecDeque<(Duration, CopyFailure)>,
    failure_count: u64,
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub block: BlockId,
    /// The disk that it asks for what is here, and then the one it writes to.
    pub disk: Option<usize>,
}

/// Why an order is not begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Deleting,
    Writing,
    HeldUp,
    NoSource,
}

impl Refusal {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleting => "the replica that was here is just being deleted",
            Self::Writing => "a chain is writing it here",
            Self::HeldUp => "the disk that has it does not answer now",
            Self::NoSource => "no source was named",
        }
    }
}

impl Copies {
    /// Takes an order, unless it is known.
    pub(crate) fn order(&mut self, order: CopyOrder) {
        if self.waiting.len() < WAITING_COUNT_MAX && self.known.insert(BlockId(order.block)) {
            self.waiting.push_back(order);
        }
    }

    /// Another worker is to begin for what waits, beside `held_up_count` that wait themselves: its number.
    pub fn begin(&mut self, count_max: usize, held_up_count: usize) -> Option<u64> {
        let free_count = self.workers.values().filter(|work| work.is_none()).count();
        if self.workers.len() >= count_max.max(1) + held_up_count || free_count >= self.waiting.len() {
            return None;
        }
        self.begun_count += 1;
        self.workers.insert(self.begun_count, None);
        Some(self.begun_count)
    }

    /// The next order for a worker; `None`: it ends, and is counted no more, so that orders which come just then begin
    /// another.
    pub fn take(&mut self, number: u64, stopping: bool) -> Option<CopyOrder> {
        let order = if stopping { None } else { self.waiting.pop_front() };
        match &order {
            Some(order) => {
                let before = self.workers.insert(number, Some(Work { block: BlockId(order.block), disk: None }));
                assert!(before.flatten().is_none(), "a worker is at one order at a time");
            }
            None => _ = self.workers.remove(&number),
        }
        order
    }

    /// From here on the worker may wait for this disk, or for none.
    pub fn works_at(&mut self, number: u64, disk: Option<usize>) {
        if let Some(Some(work)) = self.workers.get_mut(&number) {
            work.disk = disk;
        }
    }

    /// Workers, and what they are at.
    pub fn under_way(&self) -> impl Iterator<Item = (u64, Work)> {
        self.workers.iter().filter_map(|(number, work)| Some((*number, (*work)?)))
    }

    /// What the worker is at is not under way any more. False if that was said before: the order may be another
    /// worker's by now.
    pub fn finish(&mut self, number: u64) -> bool {
        let at = self.workers.get_mut(&number).and_then(Option::take);
        at.is_some_and(|work| self.known.remove(&work.block))
    }

    /// The worker waits for a disk that was given up. False if it is at something else by now.
    pub fn give_up(&mut self, number: u64, work: Work) -> bool {
        let is_at_it = self.workers.get(&number) == Some(&Some(work));
        if is_at_it {
            self.write_off(number);
        }
        is_at_it
    }

    /// A worker has ended, or is not waited for any more.
    pub fn write_off(&mut self, number: u64) {
        self.finish(number);
        self.workers.remove(&number);
    }

    /// Notes why a copy came to nothing: each source that failed, or this node.
    pub(crate) fn failed(&mut self, now: Duration, failures: impl IntoIterator<Item = CopyFailure>) {
        for failure in failures {
            self.failure_count += 1;
            if self.failures.len() >= REPORT_COUNT_MAX {
                self.failures.pop_front();
            }
            self.failures.push_back((now, CopyFailure { number: self.failure_count, ..failure }));
        }
    }

    /// Failures of the last seconds, for the heartbeat.
    pub(crate) fn failures(&mut self, now: Duration) -> Vec<CopyFailure> {
        let old = |at: &Duration| now.saturating_sub(*at) > REPORTED_FOR;
        while self.failures.front().is_some_and(|(at, _)| old(at)) {
            self.failures.pop_front();
        }
        self.failures.iter().map(|(_, failure)| failure.clone()).collect()
    }

    /// Blocks of copies that wait or are under way.
    pub(crate) fn known(&self) -> Vec<u64> {
        self.known.iter().map(|block| block.0).collect()
    }

    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    pub fn running_count(&self) -> usize {
        self.known.len() - self.waiting.len()
    }

    pub(crate) fn check(&self) {
        let waiting = self.waiting.iter().map(|order| BlockId(order.block));
        let all: Vec<BlockId> = waiting.chain(self.under_way().map(|(_, work)| work.block)).collect();
        let blocks: BTreeSet<BlockId> = all.iter().copied().collect();
        assert_eq!(blocks, self.known, "an order that is known waits or is under way");
        assert_eq!(blocks.len(), all.len(), "a block is copied once at a time");
        assert!(self.waiting.len() <= WAITING_COUNT_MAX, "orders beyond the limit are dropped");
        assert!(self.failures.len() <= REPORT_COUNT_MAX, "no more failures are kept than are reported");
        assert!(self.workers.keys().all(|number| *number <= self.begun_count), "workers are counted as they begin");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(block: u64) -> CopyOrder {
        CopyOrder { block, generation: 1001, ..CopyOrder::default() }
    }

    fn copies(blocks: &[u64]) -> Copies {
        let mut copies = Copies::default();
        blocks.iter().for_each(|block| copies.order(order(*block)));
        copies.check();
        copies
    }

    #[test]
    fn an_order_that_comes_again_is_copied_once() {
        let mut copies = copies(&[1, 2, 1]);
        let first = copies.begin(4, 0).unwrap();
        assert_eq!(copies.take(first, false), Some(order(1)));
        copies.order(order(1));
        copies.check();
        assert_eq!((copies.known(), copies.running_count()), (vec![1, 2], 1));
        assert!(copies.finish(first));
        copies.order(order(1));
        assert_eq!(copies.take(first, false), Some(order(2)));
        copies.check();
    }

    #[test]
    fn workers_end_with_the_orders() {
        let mut copies = copies(&[1, 2]);
        let (first, second) = (copies.begin(4, 0).unwrap(), copies.begin(4, 0).unwrap());
        assert_eq!(copies.begin(4, 0), None, "there is no third order");
        assert!(copies.take(first, false).is_some() && copies.finish(first));
        assert!(copies.take(second, true).is_none(), "the node stops");
        assert!(copies.take(first, false).is_some() && copies.finish(first) && copies.take(first, false).is_none());
        copies.check();
        assert_eq!(copies.under_way().count() + copies.known_count(), 0);
    }

    #[test]
    fn an_order_does_not_wait_for_a_slow_copy_while_there_is_a_place() {
        let mut copies = copies(&[1]);
        let first = copies.begin(4, 0).unwrap();
        copies.take(first, false);
        copies.order(order(2));
        assert!(copies.begin(4, 0).is_some() && copies.begin(4, 0).is_none());
    }

    /// Its disk was given up: what it says when it comes back counts for nothing, as another has its order.
    #[test]
    fn a_worker_that_was_written_off_finishes_nothing() {
        let mut copies = copies(&[1]);
        let first = copies.begin(1, 0).unwrap();
        copies.take(first, false);
        copies.works_at(first, Some(3));
        assert_eq!(copies.under_way().collect::<Vec<_>>(), [(first, Work { block: BlockId(1), disk: Some(3) })]);
        assert!(!copies.give_up(first, Work { block: BlockId(1), disk: None }), "it has gone on since");
        assert!(copies.give_up(first, Work { block: BlockId(1), disk: Some(3) }));
        copies.order(order(1));
        let second = copies.begin(1, 0).unwrap();
        assert!(copies.take(second, false).is_some());
        assert!(!copies.finish(first) && copies.finish(second));
        copies.check();
    }

    #[test]
    fn a_worker_that_waits_for_a_disk_is_followed_by_another() {
        let mut copies = copies(&[1, 2]);
        let first = copies.begin(1, 0).unwrap();
        copies.take(first, false);
        assert_eq!(copies.begin(1, 0), None);
        assert!(copies.begin(1, 1).is_some() && copies.begin(1, 1).is_none());
        copies.check();
    }

    #[test]
    fn failures_are_reported_for_some_seconds_by_numbers_of_their_own() {
        let mut copies = copies(&[]);
        let fail = |reason: &str| CopyFailure { reason: reason.to_owned(), ..CopyFailure::default() };
        copies.failed(Duration::from_secs(1), [fail("a"), fail("b")]);
        copies.failed(Duration::from_secs(4), [fail("c")]);
        let numbers = |copies: &mut Copies, at: u64| {
            copies.failures(Duration::from_secs(at)).iter().map(|failure| failure.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&mut copies, 6), [1, 2, 3]);
        assert_eq!(numbers(&mut copies, 7), [3]);
        assert_eq!(numbers(&mut copies, 10), [] as [u64; 0]);
    }
}
