//! Blocks on lease that a writer has not used yet, by replication.
//!
//! They are asked for in batches that grow with the demand, before the last one is gone; what is not used soon enough
//! for its lease to be sure is given back.

use super::verdict::EXCLUDED_FOR;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wire::client::LEASE_COUNT_MAX;

/// The first batch: most programs write a few files.
const COUNT_FIRST: u32 = 4;
/// A batch that was used up within this is followed by one twice as large.
const SOON: Duration = Duration::from_secs(5);

/// A block that is ours to write, once.
pub trait Leased {
    type Node: Ord + Clone;

    fn block(&self) -> u64;
    /// The lease is sure until then.
    fn until(&self) -> Duration;
    fn is_on(&self, node: &Self::Node) -> bool;
}

/// Until when a lease that was asked for at `asked` is to be used: a quarter of its time is for the write and the call
/// behind it.
pub fn sure_until(asked: Duration, limit: Duration) -> Duration {
    asked + limit / 4 * 3
}

#[derive(Debug)]
pub struct Stock<L: Leased> {
    shelves: BTreeMap<u16, Shelf<L>>,
    /// Nodes that failed, and until when they are avoided.
    excluded: BTreeMap<L::Node, Duration>,
    /// Blocks to be given back with the next request.
    returned: Vec<u64>,
}

/// Blocks of one replication.
#[derive(Debug)]
struct Shelf<L> {
    /// The oldest are in front.
    leases: VecDeque<L>,
    /// Of the last batch: how many, and when.
    asked_count: u32,
    asked: Duration,
    refilling: bool,
}

/// What a request for leases says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish<N> {
    pub count: u32,
    pub excluded: Vec<N>,
    pub returned: Vec<u64>,
}

impl<L> Default for Shelf<L> {
    fn default() -> Self {
        Self { leases: VecDeque::new(), asked_count: 0, asked: Duration::ZERO, refilling: false }
    }
}

impl<L: Leased> Default for Stock<L> {
    fn default() -> Self {
        Self { shelves: BTreeMap::new(), excluded: BTreeMap::new(), returned: Vec::new() }
    }
}

impl<L> Shelf<L> {
    fn next_count(&self, now: Duration) -> u32 {
        match self.asked_count {
            0 => COUNT_FIRST,
            count if now.saturating_sub(self.asked) <= SOON => (2 * count).min(LEASE_COUNT_MAX),
            _ => COUNT_FIRST,
        }
    }
}

impl<L: Leased> Stock<L> {
    /// A block from the shelf, and whether the shelf should be filled up: then [`Self::refilled`] follows.
    pub fn pop(&mut self, now: Duration, replication: u16) -> (Option<L>, bool) {
        let shelf = self.shelves.entry(replication).or_default();
        let mut lease = shelf.leases.pop_front();
        while let Some(stale) = lease.take_if(|lease| lease.until() <= now) {
            self.returned.push(stale.block());
            lease = shelf.leases.pop_front();
        }
        let low = shelf.leases.len() as u32 <= shelf.asked_count / 4;
        let refill = lease.is_some() && low && shelf.asked_count > COUNT_FIRST && !shelf.refilling;
        shelf.refilling |= refill;
        (lease, refill)
    }

    /// This node did not take a block: those that would go there are given back.
    pub fn exclude(&mut self, now: Duration, node: L::Node) {
        for shelf in self.shelves.values_mut() {
            shelf.leases.retain(|lease| {
                let well = !lease.is_on(&node);
                if !well {
                    self.returned.push(lease.block());
                }
                well
            });
        }
        self.excluded.insert(node, now + EXCLUDED_FOR);
    }

    /// It is well again: blocks may go there.
    pub fn readmit(&mut self, node: &L::Node) {
        self.excluded.remove(node);
    }

    pub fn excluded(&mut self, now: Duration) -> Vec<L::Node> {
        self.excluded.retain(|_, until| *until > now);
        self.excluded.keys().cloned().collect()
    }

    /// The block was not put and will not be.
    pub fn give_back(&mut self, block: u64) {
        self.returned.push(block);
    }

    pub fn take_returned(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.returned)
    }

    /// The server does not honour our leases any more.
    pub fn forget_all(&mut self) {
        self.shelves.clear();
    }

    /// What to ask for.
    pub fn wish(&mut self, now: Duration, replication: u16) -> Wish<L::Node> {
        let count = self.shelves.entry(replication).or_default().next_count(now);
        Wish { count, excluded: self.excluded(now), returned: self.take_returned() }
    }

    /// What was asked for at that time has come.
    pub fn fill(&mut self, replication: u16, asked: Duration, leases: Vec<L>) {
        let shelf = self.shelves.entry(replication).or_default();
        (shelf.asked_count, shelf.asked) = (leases.len() as u32, asked);
        shelf.leases.extend(leases);
    }

    pub fn refilled(&mut self, replication: u16) {
        self.shelves.entry(replication).or_default().refilling = false;
    }
}
