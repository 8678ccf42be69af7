//! Surplus replicas: kept until the members that should have the block were asked, then ordered deleted.
//!
//! ```text
//! reported, not of the home, or stale ──keep──▶ by home ──next──▶ (members are asked)
//!                                        │ not enough of them have it: again later; until then it is a source
//!                                        └ they have it ──approve_deletion──▶ orders(node), leaving until deleted
//! ```
//!
//! Promise: others confirmed a block a moment before its surplus replica is ordered deleted. So it is never the last
//! good copy, whatever this process has missed; an order that its node does not fetch at once is void. A replica whose
//! deletion was ordered counts as no copy ([`Surplus::is_leaving`]), even while its node still reports it. If it is
//! wanted there again, it is copied anew. Nothing is lost if this memory is: nodes report all their replicas in
//! catalogues.

use crate::repair::Repair;
use crate::replica_fate::ReportedReplica;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, NodeId};

/// Replicas remembered, each about a hundred bytes. The others come with a later catalogue.
const KEPT_COUNT_MAX: usize = 200_000;
/// Of one node, so that one which reports many leaves room for others.
const KEPT_OF_NODE_MAX: usize = KEPT_COUNT_MAX / 4;
/// Orders in one answer.
const ORDER_COUNT_MAX: usize = 5000;
/// Between questions about one container whose members lack something.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// A confirmation of a block counts for so long: a node gets its orders with its next heartbeat.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);
/// A node that was ordered to delete, and reports nothing, has not got the order, or keeps the replica by now for a
/// good reason.
const LEAVING_FOR: Duration = Duration::from_secs(300);

/// Replicas of one container's blocks, and the last report of each.
type Kept = BTreeMap<(BlockId, NodeId), (ReportedReplica, Duration)>;

#[derive(Debug, Default)]
pub struct Surplus {
    by_home: BTreeMap<ContainerId, Kept>,
    /// By block too, for the search for a source.
    homes: BTreeMap<BlockId, BTreeSet<ContainerId>>,
    /// And by node.
    of_node: BTreeMap<NodeId, BTreeSet<(ContainerId, BlockId)>>,
    due: BTreeSet<(Duration, ContainerId)>,
    /// Of containers of which only a part was asked about: the last replica.
    asked_up_to: BTreeMap<ContainerId, (BlockId, NodeId)>,
    /// Containers some of whose replicas stayed since the first of them was asked about.
    unsettled: BTreeSet<ContainerId>,
    count: usize,
    /// Nodes that reported more than there was room for, since they began their catalogues.
    overflowing: BTreeSet<NodeId>,
    /// Confirmed by others; to be ordered deleted.
    going: BTreeMap<NodeId, BTreeMap<BlockId, Going>>,
    /// To be deleted, or ordered deleted and not confirmed: up to which generation, and since when.
    leaving: BTreeMap<(BlockId, NodeId), (Generation, Duration)>,
    /// Nodes that left a pipeline: their replicas of it are surplus, and they should send catalogues soon.
    catalogue_to_request: BTreeSet<NodeId>,
    /// Of nodes that owe a catalogue, or have not ended one yet: whether they began it after they were asked.
    catalogue_awaited: BTreeMap<NodeId, bool>,
    /// Nodes that have sent this process a complete catalogue at some time.
    sent_catalogue: BTreeSet<NodeId>,
    /// When a node began its catalogue.
    catalogue_begun_at: BTreeMap<NodeId, Duration>,
    /// Nodes that drain and are in no pipeline any more.
    drained: BTreeMap<NodeId, Drained>,
}

/// A node that drains, and is in no pipeline any more.
#[derive(Debug)]
struct Drained {
    since: Duration,
    catalogue: Catalogue,
}

/// A node's replicas are known when it has sent a catalogue from the beginning, after no writer could put anything
/// there any more. By the order of events: the clock may give the same time for two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Catalogue {
    NotAsked,
    Asked,
    Complete,
}

/// A replica to be ordered deleted: others have confirmed its block at this time.
#[derive(Clone, Copy, Debug)]
struct Going {
    reported: ReportedReplica,
    home: ContainerId,
    confirmed: Duration,
}

impl Going {
    fn is_old(&self, now: Duration) -> bool {
        now.saturating_sub(self.confirmed) > CONFIRMED_FOR
    }
}

impl Surplus {
    /// `node` has a replica that does not belong there; the block's home is `home`.
    pub fn keep(&mut self, node: NodeId, reported: ReportedReplica, home: ContainerId, now: Duration) {
        let of_node = self.of_node.get(&node);
        let is_full = self.count >= KEPT_COUNT_MAX || of_node.is_some_and(|kept| kept.len() >= KEPT_OF_NODE_MAX);
        if is_full && !of_node.is_some_and(|kept| kept.contains(&(home, reported.block))) {
            self.overflowing.insert(node);
            return;
        }
        let of_home = self.by_home.entry(home).or_default();
        if of_home.is_empty() {
            self.due.insert((now, home));
        }
        if of_home.insert((reported.block, node), (reported, now)).is_none() {
            self.count += 1;
            self.homes.entry(reported.block).or_default().insert(home);
            self.of_node.entry(node).or_default().insert((home, reported.block));
        }
    }

    /// `node` is to send its catalogue.
    pub fn ask_all(&mut self, node: NodeId) {
        self.catalogue_to_request.insert(node);
        self.catalogue_awaited.insert(node, false);
    }

    /// `node` has sent this process a complete catalogue since it was last asked.
    pub(crate) fn has_full_catalogue(&self, node: NodeId) -> bool {
        self.sent_catalogue.contains(&node)
            && !self.catalogue_awaited.contains_key(&node)
            && !self.overflowing.contains(&node)
    }

    /// `node` begins its catalogue.
    pub fn on_catalogue_begun(&mut self, node: NodeId, now: Duration) {
        self.catalogue_begun_at.insert(node, now);
        if self.overflowing.remove(&node) {
            // What there was no room for is known when this catalogue is complete, and not before.
            self.catalogue_awaited.entry(node).or_insert(true);
            self.await_catalogue(node);
        }
        let is_asked = !self.catalogue_to_request.contains(&node);
        self.catalogue_awaited.entry(node).and_modify(|begun| *begun = is_asked);
    }

    /// `node` has completed its catalogue. Replicas that are not in it do not exist any more, and are no sources.
    pub fn on_catalogue_complete(&mut self, node: NodeId) {
        self.sent_catalogue.insert(node);
        self.catalogue_awaited.retain(|id, begun| *id != node || !*begun);
        let Some(begun) = self.catalogue_begun_at.remove(&node) else { return };
        if let Some(drained) = self.drained.get_mut(&node).filter(|drained| drained.catalogue == Catalogue::Asked) {
            drained.catalogue = Catalogue::Complete;
        }
        let is_old = |(home, block): &&(ContainerId, BlockId)| {
            let kept = self.by_home.get(home).and_then(|kept| kept.get(&(*block, node)));
            kept.is_some_and(|(_, at)| *at < begun)
        };
        let gone: Vec<_> = self.of_node.get(&node).into_iter().flatten().filter(is_old).copied().collect();
        for (home, block) in gone {
            self.forget(home, node, block);
        }
    }

    /// What `node` reported was not all that it has.
    fn await_catalogue(&mut self, node: NodeId) {
        if let Some(drained) = self.drained.get_mut(&node).filter(|drained| drained.catalogue == Catalogue::Complete) {
            drained.catalogue = Catalogue::Asked;
        }
    }

    /// `node` drains, and is in no pipeline any more: since when?
    pub(crate) fn drained_since(&mut self, node: NodeId, now: Duration) -> Duration {
        let drained = self.drained.entry(node).or_insert(Drained { since: now, catalogue: Catalogue::NotAsked });
        drained.since
    }

    pub fn on_member_again(&mut self, node: NodeId) {
        self.drained.remove(&node);
    }

    /// No writer can put anything on `node` any more: it is to send its catalogue once more. True if it has, and no
    /// replica that others may lack is kept, or could not be kept, except useless ones.
    pub(crate) fn is_settled(&mut self, node: NodeId, repair: &Repair) -> bool {
        let Some(drained) = self.drained.get_mut(&node) else { return false };
        if drained.catalogue == Catalogue::NotAsked {
            drained.catalogue = Catalogue::Asked;
            self.catalogue_to_request.insert(node);
            // One that is under way may have gone past what came meanwhile.
            self.catalogue_begun_at.remove(&node);
        }
        let is_complete = drained.catalogue == Catalogue::Complete;
        is_complete
            && !self.overflowing.contains(&node)
            && self.kept_of(node).all(|reported| repair.is_useless(node, reported))
    }

    fn kept_of(&self, node: NodeId) -> impl Iterator<Item = &ReportedReplica> {
        let kept = self.of_node.get(&node).into_iter().flatten();
        kept.filter_map(move |(home, block)| Some(&self.by_home.get(home)?.get(&(*block, node))?.0))
    }

    /// Replicas of `node` that are damaged, or not all of their blocks, which no node has any better.
    pub fn useless_count(&self, node: NodeId, repair: &Repair) -> usize {
        self.kept_of(node).filter(|reported| repair.is_useless(node, reported)).count()
    }

    /// Whether `node` is to send its catalogue; true once for each request.
    pub fn take_ask(&mut self, node: NodeId) -> bool {
        self.catalogue_to_request.remove(&node)
    }

    /// The next container whose members should be asked.
    pub fn next(&mut self, now: Duration) -> Option<ContainerId> {
        let (at, home) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, home));
        Some(home)
    }

    /// What is kept of a container, some at a time: what cannot be settled keeps nothing behind it from its turn.
    pub fn next_of(&mut self, home: ContainerId, limit: usize) -> Vec<(NodeId, ReportedReplica)> {
        let Some(kept) = self.by_home.get(&home) else { return Vec::new() };
        let after = self.asked_up_to.remove(&home).map_or(Bound::Unbounded, Bound::Excluded);
        let behind = kept.range((after, Bound::Unbounded)).map(|((_, node), (reported, _))| (*node, *reported));
        let page: Vec<(NodeId, ReportedReplica)> = behind.take(limit).collect();
        if let Some((node, reported)) = page.last().filter(|_| page.len() == limit) {
            self.asked_up_to.insert(home, (reported.block, *node));
        }
        page
    }

    /// The question about `home` was answered: what is still kept is asked again later, or at once for what was not
    /// asked yet.
    pub fn asked(&mut self, home: ContainerId, now: Duration, settled_all: bool) {
        if self.by_home.contains_key(&home) {
            if !settled_all {
                self.unsettled.insert(home);
            }
            // Behind the last page the turn begins anew, but for what stayed not at once.
            let is_at_once = self.asked_up_to.contains_key(&home) || !self.unsettled.remove(&home);
            self.due.insert((if is_at_once { now } else { now + ASK_AGAIN_AFTER }, home));
        }
    }

    /// It is no surplus, or not any more.
    pub fn forget(&mut self, home: ContainerId, node: NodeId, block: BlockId) {
        let Some(of_home) = self.by_home.get_mut(&home) else { return };
        if of_home.remove(&(block, node)).is_none() {
            return;
        }
        self.count -= 1;
        if let Some(of_node) = self.of_node.get_mut(&node) {
            of_node.remove(&(home, block));
            if of_node.is_empty() {
                self.of_node.remove(&node);
                if self.overflowing.remove(&node) {
                    self.ask_all(node);
                    // A catalogue under way has passed over some already.
                    self.catalogue_begun_at.remove(&node);
                    self.await_catalogue(node);
                }
            }
        }
        let Some(of_home) = self.by_home.get_mut(&home) else { return };
        let others = of_home.range((block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))).next().is_some();
        if of_home.is_empty() {
            self.by_home.remove(&home);
            self.asked_up_to.remove(&home);
            self.unsettled.remove(&home);
        }
        if !others && let Some(homes) = self.homes.get_mut(&block) {
            homes.remove(&home);
            if homes.is_empty() {
                self.homes.remove(&block);
            }
        }
    }

    /// Others have the block: the replica is to be deleted, at this generation and below.
    pub fn approve_deletion(&mut self, home: ContainerId, node: NodeId, reported: ReportedReplica, now: Duration) {
        self.forget(home, node, reported.block);
        self.going.entry(node).or_default().insert(reported.block, Going { reported, home, confirmed: now });
        self.leaving.insert((reported.block, node), (reported.generation, now));
    }

    /// Orders for `node`, returned once. The caller judges each replica again, and calls [`Self::stays`] for those that
    /// are kept.
    pub fn orders(&mut self, node: NodeId, now: Duration) -> Vec<ReportedReplica> {
        let Some(going) = self.going.get_mut(&node) else { return Vec::new() };
        let taken: Vec<Going> = (0..ORDER_COUNT_MAX).map_while(|_| going.pop_first()).map(|(_, going)| going).collect();
        if going.is_empty() {
            self.going.remove(&node);
        }
        let (old, sure): (Vec<_>, Vec<_>) = taken.into_iter().partition(|going| going.is_old(now));
        old.iter().for_each(|going| self.keep_again(node, going, now));
        sure.into_iter().map(|going| going.reported).collect()
    }

    /// It was not ordered away in time. Members are asked again, without a word from its node: a catalogue of all that
    /// it has may take longer than a confirmation counts.
    fn keep_again(&mut self, node: NodeId, going: &Going, now: Duration) {
        self.stays(node, going.reported.block);
        self.keep(node, going.reported, going.home, now);
    }

    /// A replica that was let go is not ordered away, is gone, or was put anew.
    /// True: it was to go.
    pub fn stays(&mut self, node: NodeId, block: BlockId) -> bool {
        if let Some(going) = self.going.get_mut(&node) {
            going.remove(&block);
            if going.is_empty() {
                self.going.remove(&node);
            }
        }
        self.leaving.remove(&(block, node)).is_some()
    }

    /// True if the replica, or an older one that its node has instead, is on its way out.
    pub fn is_leaving(&self, block: BlockId, node: NodeId, generation: Generation) -> bool {
        self.leaving.get(&(block, node)).is_some_and(|(at_most, _)| *at_most >= generation)
    }

    /// Forgets what is too old to be true.
    pub fn expire(&mut self, now: Duration) {
        self.leaving.retain(|_, (_, since)| now.saturating_sub(*since) <= LEAVING_FOR);
        let is_old = |(_, going): &(&BlockId, &Going)| going.is_old(now);
        let old = self
            .going
            .iter()
            .flat_map(|(node, of_node)| of_node.iter().filter(is_old).map(|(_, going)| (*node, *going)));
        let old: Vec<(NodeId, Going)> = old.collect();
        old.iter().for_each(|(node, going)| self.keep_again(*node, going, now));
    }

    /// Whether this is what is kept: no younger report came, and it was not settled.
    pub(crate) fn keeps(&self, home: ContainerId, node: NodeId, reported: &ReportedReplica) -> bool {
        let kept = self.by_home.get(&home).and_then(|kept| kept.get(&(reported.block, node)));
        kept.is_some_and(|(kept, _)| kept == reported)
    }

    /// Nodes with a surplus replica of `block` that can be read, as young as `generation` and as long as `len`.
    pub fn sources(&self, block: BlockId, generation: Generation, len: u64) -> Vec<NodeId> {
        let homes = self.homes.get(&block).into_iter().flatten();
        let kept = homes
            .filter_map(|home| self.by_home.get(home))
            .flat_map(|of_home| of_home.range((block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))));
        let fit = kept.filter(|(_, (reported, _))| {
            reported.finalized && reported.generation >= generation && reported.len >= len
        });
        fit.map(|((_, node), _)| *node).collect()
    }

    /// Containers of which something is kept.
    pub(crate) fn homes(&self) -> impl Iterator<Item = ContainerId> {
        self.by_home.keys().copied()
    }

    /// What is kept of a container, on which node.
    pub(crate) fn kept_in(&self, home: ContainerId) -> impl Iterator<Item = (NodeId, &ReportedReplica)> {
        let kept = self.by_home.get(&home).into_iter().flatten();
        kept.map(|((_, node), (reported, _))| (*node, reported))
    }

    /// Whether `node` reported more than there was room for.
    pub(crate) fn is_overflowing(&self, node: NodeId) -> bool {
        self.overflowing.contains(&node)
    }

    /// Whether `node` has reported a surplus replica of `block`.
    pub(crate) fn holds(&self, block: BlockId, node: NodeId) -> bool {
        let mut homes = self.homes.get(&block).into_iter().flatten().filter_map(|home| self.by_home.get(home));
        homes.any(|kept| kept.contains_key(&(block, node)))
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What is counted and listed along with what is kept. Looks at everything.
    pub fn check(&self) {
        let mut homes: BTreeMap<BlockId, BTreeSet<ContainerId>> = BTreeMap::new();
        let mut of_node: BTreeMap<NodeId, BTreeSet<(ContainerId, BlockId)>> = BTreeMap::new();
        for (home, kept) in &self.by_home {
            assert!(!kept.is_empty(), "{home} is listed, and nothing of it is kept");
            for ((block, node), (reported, _)) in kept {
                of_node.entry(*node).or_default().insert((*home, *block));
                assert_eq!(reported.block, *block, "a replica is listed under its block");
                homes.entry(*block).or_default().insert(*home);
            }
        }
        assert_eq!(self.homes, homes, "containers of each block");
        assert_eq!(self.of_node, of_node, "replicas of each node");
        assert!(self.asked_up_to.keys().all(|home| self.by_home.contains_key(home)), "a turn among what is not kept");
        assert!(self.unsettled.iter().all(|home| self.by_home.contains_key(home)), "what stayed is not kept");
        assert_eq!(self.count, self.by_home.values().map(BTreeMap::len).sum::<usize>(), "replicas that are kept");
        assert!(self.count <= KEPT_COUNT_MAX, "{} replicas are kept", self.count);
        for (node, going) in &self.going {
            assert!(!going.is_empty(), "{node} is listed, and nothing goes there");
            for (block, Going { reported, confirmed, .. }) in going {
                let leaving = self.leaving.get(&(*block, *node));
                assert_eq!(
                    leaving,
                    Some(&(reported.generation, *confirmed)),
                    "what goes counts as no copy: {block} on {node}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One node takes no more than its share; the rest of what it has is asked for when that is dealt with, and until
    /// then it counts as no empty node.
    #[test]
    fn a_node_that_reports_many_leaves_room_for_others() {
        let (home, one, two) = (ContainerId(1), NodeId([1; 16]), NodeId([2; 16]));
        let reported = |index| {
            let (block, generation) = (BlockId::new(home, index), Generation(1001));
            ReportedReplica { block, generation, len: 5, file: None, home: None, finalized: true }
        };
        let (mut surplus, repair) = (Surplus::default(), Repair::default());
        let at = Duration::from_secs;
        let report = |surplus: &mut Surplus, count: u32, now| {
            surplus.on_catalogue_begun(one, now);
            (0..count).for_each(|index| surplus.keep(one, reported(index), home, now));
            surplus.on_catalogue_complete(one);
        };
        surplus.drained_since(one, at(1));
        assert!(!surplus.is_settled(one, &repair));
        surplus.take_ask(one);
        let max = u32::try_from(KEPT_OF_NODE_MAX).unwrap();
        report(&mut surplus, max + 7, at(2));
        surplus.keep(two, reported(0), home, at(2));
        surplus.check();
        assert_eq!((surplus.len(), surplus.take_ask(one)), (KEPT_OF_NODE_MAX + 1, false));
        assert!(!surplus.has_full_catalogue(one) && !surplus.is_settled(one, &repair));
        report(&mut surplus, max + 7, at(3));
        assert_eq!(surplus.len(), KEPT_OF_NODE_MAX + 1, "what is reported again stays");
        (0..max).for_each(|index| surplus.forget(home, one, reported(index).block));
        assert!(!surplus.is_settled(one, &repair), "seven of its replicas are not known");
        assert!(surplus.take_ask(one) && !surplus.has_full_catalogue(one));
        report(&mut surplus, 0, at(4));
        assert!(surplus.is_settled(one, &repair));
        surplus.check();
    }

    /// A catalogue that nobody asked for begins: until it is complete, what an earlier one had no room for is not
    /// known.
    #[test]
    fn a_node_that_reported_too_many_is_not_known_while_it_reports_anew() {
        let (node, repair, at) = (NodeId([1; 16]), Repair::default(), Duration::from_secs);
        let mut surplus = Surplus::default();
        surplus.drained_since(node, at(1));
        assert!(!surplus.is_settled(node, &repair) && surplus.take_ask(node));
        surplus.on_catalogue_begun(node, at(2));
        surplus.overflowing.insert(node); // others have all the room
        surplus.on_catalogue_complete(node);
        surplus.on_catalogue_begun(node, at(600));
        assert!(!surplus.has_full_catalogue(node) && !surplus.is_settled(node, &repair));
        surplus.on_catalogue_complete(node);
        assert!(surplus.has_full_catalogue(node) && surplus.is_settled(node, &repair));
        surplus.check();
    }

    /// The last page is full, so another, empty one follows: what stayed on the pages before waits all the same.
    #[test]
    fn what_stays_is_not_asked_about_at_once_again() {
        let (home, now) = (ContainerId(1), Duration::from_secs(1));
        let mut surplus = Surplus::default();
        for index in 0..2 {
            let (block, generation) = (BlockId::new(home, index), Generation(1001));
            let reported = ReportedReplica { block, generation, len: 5, file: None, home: None, finalized: true };
            surplus.keep(NodeId([1; 16]), reported, home, now);
        }
        assert_eq!(surplus.next(now), Some(home));
        assert_eq!(surplus.next_of(home, 2).len(), 2);
        surplus.asked(home, now, false);
        assert_eq!(surplus.next(now), Some(home), "there may be more");
        assert_eq!(surplus.next_of(home, 2).len(), 0);
        surplus.asked(home, now, true);
        assert_eq!((surplus.next(now), surplus.next(now + ASK_AGAIN_AFTER)), (None, Some(home)));
        surplus.check();
    }

    #[test]
    fn a_replica_is_kept_as_a_source_until_others_have_the_block() {
        let (home, block) = (ContainerId(1), BlockId::new(ContainerId(1), 4));
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let reported =
            ReportedReplica { block, generation: Generation(1001), len: 5, file: None, home: None, finalized: true };
        let now = Duration::from_secs(1);
        let mut surplus = Surplus::default();
        surplus.keep(one, reported, home, now);
        surplus.check();
        surplus.keep(two, ReportedReplica { len: 3, ..reported }, home, now);
        surplus.check();
        surplus.keep(NodeId([3; 16]), ReportedReplica { finalized: false, ..reported }, home, now);
        surplus.check();
        assert_eq!((surplus.next(now), surplus.next(now)), (Some(home), None));
        assert_eq!(surplus.sources(block, Generation(1001), 5), [one]);
        assert_eq!(surplus.sources(block, Generation(1002), 5), []);
        surplus.asked(home, now, false);
        surplus.check();
        assert_eq!(surplus.next(now), None, "not at once");
        assert_eq!(surplus.next(now + ASK_AGAIN_AFTER), Some(home));
        assert_eq!(surplus.next_of(home, 10).len(), 3);
        let two_by_two: Vec<usize> = (0..3).map(|_| surplus.next_of(home, 2).len()).collect();
        assert_eq!(two_by_two, [2, 1, 2], "all have their turn, and then the first again");
        surplus.asked(home, now, false);
        assert_eq!(surplus.next(now), Some(home), "the rest of them at once");
        surplus.next_of(home, 2);
        surplus.asked(home, now, false);
        surplus.approve_deletion(home, one, reported, now);
        surplus.check();
        surplus.forget(home, two, block);
        surplus.check();
        surplus.forget(home, NodeId([3; 16]), block);
        surplus.check();
        assert!(surplus.is_leaving(block, one, Generation(1001)), "no copy any more");
        assert!(!surplus.is_leaving(block, one, Generation(1002)), "a younger one is none of those");
        assert_eq!(surplus.orders(one, now), [reported]);
        assert_eq!((surplus.orders(one, now), surplus.is_empty()), (vec![], true));
        assert_eq!(surplus.sources(block, Generation(1001), 5), []);
        assert!(surplus.is_leaving(block, one, Generation(1001)), "ordered, and not reported gone");
        surplus.stays(one, block);
        surplus.check();
        assert!(!surplus.is_leaving(block, one, Generation(1001)));
    }

    /// A node that reported a replica comes back with an empty disk, or somebody tidied up by hand.
    #[test]
    fn what_is_not_told_again_is_no_source() {
        let (home, node, at) = (ContainerId(1), NodeId([1; 16]), Duration::from_secs);
        let reported = |index| {
            let block = BlockId::new(home, index);
            ReportedReplica { block, generation: Generation(1001), len: 5, file: None, home: None, finalized: true }
        };
        let mut surplus = Surplus::default();
        surplus.keep(node, reported(1), home, at(1));
        surplus.check();
        surplus.keep(node, reported(2), home, at(1));
        surplus.check();
        surplus.keep(NodeId([2; 16]), reported(1), home, at(1));
        surplus.check();
        surplus.on_catalogue_begun(node, at(600));
        surplus.keep(node, reported(2), home, at(601));
        surplus.check();
        surplus.on_catalogue_complete(node);
        surplus.check();
        assert_eq!(surplus.sources(reported(1).block, Generation(1001), 5), [NodeId([2; 16])]);
        assert_eq!(surplus.sources(reported(2).block, Generation(1001), 5), [node]);
    }

    #[test]
    fn an_order_that_was_not_fetched_is_off() {
        let (home, block, node) = (ContainerId(1), BlockId::new(ContainerId(1), 4), NodeId([1; 16]));
        let reported =
            ReportedReplica { block, generation: Generation(1001), len: 5, file: None, home: None, finalized: true };
        let mut surplus = Surplus::default();
        surplus.keep(node, reported, home, Duration::ZERO);
        surplus.check();
        surplus.approve_deletion(home, node, reported, Duration::ZERO);
        surplus.check();
        assert_eq!(surplus.orders(node, CONFIRMED_FOR + Duration::from_secs(1)), [], "the others may be gone by now");
        assert!(!surplus.is_leaving(block, node, Generation(1001)), "it stays, so it is a copy again");
        surplus.check();
        assert_eq!((surplus.len(), surplus.take_ask(node)), (1, false), "others are asked again, not its node");
    }

    #[test]
    fn what_is_too_old_to_be_true_is_forgotten() {
        let (home, block, node) = (ContainerId(1), BlockId::new(ContainerId(1), 4), NodeId([1; 16]));
        let reported =
            ReportedReplica { block, generation: Generation(1001), len: 5, file: None, home: None, finalized: true };
        let mut surplus = Surplus::default();
        surplus.keep(node, reported, home, Duration::ZERO);
        surplus.approve_deletion(home, node, reported, Duration::ZERO);
        for (now, goes, leaves, kept) in [(CONFIRMED_FOR, 1, 1, 0), (CONFIRMED_FOR * 2, 0, 0, 1)] {
            surplus.expire(now);
            surplus.check();
            assert_eq!((surplus.going.len(), surplus.leaving.len(), surplus.len()), (goes, leaves, kept), "{now:?}");
            assert!(!surplus.take_ask(node), "others are asked again, not its node");
        }
        surplus.approve_deletion(home, node, reported, Duration::ZERO);
        assert_eq!(surplus.orders(node, CONFIRMED_FOR), [reported]);
        for (now, leaves) in [(LEAVING_FOR, 1), (LEAVING_FOR + CONFIRMED_FOR, 0)] {
            surplus.expire(now);
            surplus.check();
            assert_eq!((surplus.leaving.len(), surplus.len()), (leaves, 0), "ordered away, and nothing heard: {now:?}");
        }
    }
}
