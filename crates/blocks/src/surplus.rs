//! Replicas where none should be: kept until those who should have the block were asked, then ordered away.
//!
//! ```text
//! told by a node, not of the home, or older ──keep──▶ by home ──next──▶ (members are asked)
//!                                                        │ not enough of them have it: later again, and meanwhile it is a source
//!                                                        └ they have it ──let_go──▶ orders(node)
//! ```
//!
//! Promise: what is ordered away here was confirmed by others a moment before, so it is never the last good copy, whatever this
//! process has missed. Nothing is lost if this memory is: nodes tell of all they have in their catalogues.

use crate::judge::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, NodeId};

/// Replicas remembered, each about a hundred bytes. The others come with a later catalogue.
const KEPT_COUNT_MAX: usize = 200_000;
/// Orders in one answer.
const ORDER_COUNT_MAX: usize = 5000;
/// Between questions about one container whose members lack something.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct Surplus {
    by_home: BTreeMap<ContainerId, BTreeMap<(BlockId, NodeId), Told>>,
    /// By block too, for those who look for a source.
    homes: BTreeMap<BlockId, BTreeSet<ContainerId>>,
    due: BTreeSet<(Duration, ContainerId)>,
    count: usize,
    /// Confirmed by others; to be told to their nodes.
    going: BTreeMap<NodeId, BTreeMap<BlockId, Generation>>,
}

impl Surplus {
    /// `node` has a replica that does not belong there; the block's home is `home`.
    pub fn keep(&mut self, node: NodeId, told: Told, home: ContainerId, now: Duration) {
        if self.count >= KEPT_COUNT_MAX {
            return;
        }
        let of_home = self.by_home.entry(home).or_default();
        if of_home.is_empty() {
            self.due.insert((now, home));
        }
        if of_home.insert((told.block, node), told).is_none() {
            self.count += 1;
            self.homes.entry(told.block).or_default().insert(home);
        }
    }

    /// The next container whose members should be asked.
    pub fn next(&mut self, now: Duration) -> Option<ContainerId> {
        let (at, home) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, home));
        Some(home)
    }

    /// What is kept of a container.
    pub fn of(&self, home: ContainerId, limit: usize) -> Vec<(NodeId, Told)> {
        let kept = self.by_home.get(&home).into_iter().flatten();
        kept.map(|((_, node), told)| (*node, *told)).take(limit).collect()
    }

    /// The question about `home` was answered: what is still kept is asked again later, or at once for what was not asked yet.
    pub fn asked(&mut self, home: ContainerId, now: Duration, settled_all: bool) {
        if self.by_home.contains_key(&home) {
            self.due.insert((if settled_all { now } else { now + ASK_AGAIN_AFTER }, home));
        }
    }

    /// It is no surplus, or not any more.
    pub fn forget(&mut self, home: ContainerId, node: NodeId, block: BlockId) {
        let Some(of_home) = self.by_home.get_mut(&home) else { return };
        if of_home.remove(&(block, node)).is_none() {
            return;
        }
        self.count -= 1;
        let others = of_home.range((block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))).next().is_some();
        if of_home.is_empty() {
            self.by_home.remove(&home);
        }
        if !others && let Some(homes) = self.homes.get_mut(&block) {
            homes.remove(&home);
            if homes.is_empty() {
                self.homes.remove(&block);
            }
        }
    }

    /// Others have the block: the replica goes, at this generation and below.
    pub fn let_go(&mut self, home: ContainerId, node: NodeId, block: BlockId, generation: Generation) {
        self.forget(home, node, block);
        self.going.entry(node).or_default().insert(block, generation);
    }

    /// What to tell `node`, once.
    pub fn orders(&mut self, node: NodeId) -> Vec<(BlockId, Generation)> {
        let Some(going) = self.going.get_mut(&node) else { return Vec::new() };
        let orders = (0..ORDER_COUNT_MAX).map_while(|_| going.pop_first()).collect();
        if going.is_empty() {
            self.going.remove(&node);
        }
        orders
    }

    /// Nodes with a surplus replica of `block`, as young as `generation` and as long as `len`.
    pub fn sources(&self, block: BlockId, generation: Generation, len: u64) -> Vec<NodeId> {
        let homes = self.homes.get(&block).into_iter().flatten();
        let kept = homes
            .filter_map(|home| self.by_home.get(home))
            .flat_map(|of_home| of_home.range((block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))));
        let fit = kept.filter(|(_, told)| told.generation >= generation && told.len >= len);
        fit.map(|((_, node), _)| *node).collect()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_kept_as_a_source_until_others_have_the_block() {
        let (home, block) = (ContainerId(1), BlockId::new(ContainerId(1), 4));
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let told = Told { block, generation: Generation(1001), len: 5, file: None, home: None };
        let now = Duration::from_secs(1);
        let mut surplus = Surplus::default();
        surplus.keep(one, told, home, now);
        surplus.keep(two, Told { len: 3, ..told }, home, now);
        assert_eq!((surplus.next(now), surplus.next(now)), (Some(home), None));
        assert_eq!(surplus.sources(block, Generation(1001), 5), [one]);
        assert_eq!(surplus.sources(block, Generation(1002), 5), []);
        surplus.asked(home, now, false);
        assert_eq!(surplus.next(now), None, "not at once");
        assert_eq!(surplus.next(now + ASK_AGAIN_AFTER), Some(home));
        assert_eq!(surplus.of(home, 10).len(), 2);
        surplus.let_go(home, one, block, told.generation);
        surplus.forget(home, two, block);
        assert_eq!(surplus.orders(one), [(block, Generation(1001))]);
        assert_eq!((surplus.orders(one), surplus.is_empty()), (vec![], true));
        assert_eq!(surplus.sources(block, Generation(1001), 5), []);
    }
}
