//! Sealed containers, by the time of their next hash tree comparison, with the last outcome.
//!
//! Promise: each listed container is sealed, has one entry, and is dropped when it is removed. Containers whose members
//! make no trees delay the others only for a while.

use crate::cluster::Cluster;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId, TreeSum};

/// Containers a round. Those whose roots agree cost one question to each member.
const ROUND_COUNT: usize = 20;
/// Sealed containers listed in one step.
const LISTED_COUNT: usize = 1000;
/// Containers whose members make their trees at a time.
const BUILDING_COUNT_MAX: usize = 2;
/// A container whose members agree, or whose differences cannot be settled.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// One whose members could not be compared.
const LATER: Duration = Duration::from_secs(60);
/// One whose members still make their trees.
const BUILT_AFTER: Duration = Duration::from_secs(3);
/// When members still have no trees after so long, others go first, and they are asked again as those that could not be
/// compared: what they make meanwhile is not lost. Five gigabytes take seconds; a million small files on a disk that
/// seeks take longer. A guess.
const BUILDING_MAX: Duration = Duration::from_secs(600);

/// What is known of what sealed containers hold: soft, as all of it can be asked for again.
#[derive(Debug, Default)]
pub struct HashTreeQueue {
    known: BTreeMap<ContainerId, Known>,
    /// When each of them has its turn.
    due: BTreeSet<(Duration, ContainerId)>,
    building: BTreeSet<ContainerId>,
    /// Sealed containers are listed some at a time: the last one, and whether each has its turn at once.
    listed: Option<ContainerId>,
    at_once: bool,
    /// Blocks whose replicas agree with their own checksums and not with each other.
    contradictions: BTreeMap<BlockId, ContainerId>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    due: Duration,
    compared: TreesCompared,
    /// Since when its members make their trees.
    building: Option<Duration>,
}

/// What came of the last comparison of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreesCompared {
    /// There was none yet.
    Never,
    Alike(TreeSum),
    Differ,
}

/// What an attempt to compare a container came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeOutcome {
    Alike(TreeSum),
    Differ {
        /// All differences are contradictions, which cannot be settled soon.
        contradictions_only: bool,
    },
    /// Members make their trees.
    Building,
    /// A member did not answer, or still copies.
    Later,
}

impl HashTreeQueue {
    pub fn of(&self, home: ContainerId) -> TreesCompared {
        self.known.get(&home).map_or(TreesCompared::Never, |known| known.compared)
    }

    pub fn contradictions(&self) -> impl Iterator<Item = (BlockId, ContainerId)> + '_ {
        self.contradictions.iter().map(|(block, home)| (*block, *home))
    }

    /// Lists some more of the containers that are sealed. False: all were listed, and the next step begins anew.
    pub fn list_some(&mut self, cluster: &Cluster) -> bool {
        self.list(&cluster.sealed_after(self.listed, LISTED_COUNT));
        self.listed.is_some()
    }

    /// The next sealed containers, [`LISTED_COUNT`] unless there are no more: then the first come next.
    fn list(&mut self, some: &[ContainerId]) {
        for home in some {
            if self.at_once || !self.known.contains_key(home) {
                let known = self.known.get(home).copied();
                let known =
                    known.unwrap_or(Known { due: Duration::ZERO, compared: TreesCompared::Never, building: None });
                self.keep(*home, Known { due: Duration::ZERO, ..known });
            }
        }
        self.listed = some.last().copied().filter(|_| some.len() == LISTED_COUNT);
        self.at_once &= self.listed.is_some();
    }

    fn keep(&mut self, home: ContainerId, known: Known) {
        self.drop_known(home);
        self.due.insert((known.due, home));
        if known.building.is_some() {
            self.building.insert(home);
        }
        self.known.insert(home, known);
        assert_eq!(self.due.len(), self.known.len(), "each container has one turn");
        assert!(self.building.len() <= BUILDING_COUNT_MAX, "{:?} make their trees", self.building);
    }

    fn drop_known(&mut self, home: ContainerId) {
        if let Some(known) = self.known.remove(&home) {
            assert!(self.due.remove(&(known.due, home)), "{home} has its turn at {:?}", known.due);
            assert_eq!(self.building.remove(&home), known.building.is_some(), "whether trees of {home} are made");
        }
    }

    /// The container was removed.
    pub(crate) fn on_removed(&mut self, home: ContainerId) {
        self.drop_known(home);
        self.contradictions.retain(|_, of| *of != home);
    }

    /// Some whose turn it is.
    pub fn due(&self, now: Duration) -> Vec<ContainerId> {
        // Trees that are being made: the same ones until they are there, or they would push each other out of memory.
        let begun = self.building.iter().filter(|home| self.known.get(home).is_some_and(|known| known.due <= now));
        // The one that waits longest comes first, so that those which cannot be compared just now do not delay others.
        let waiting = self.due.range(..=(now, ContainerId(u64::MAX))).map(|(_, home)| home);
        let others = waiting.filter(|home| !self.building.contains(home));
        let room = if self.building.len() >= BUILDING_COUNT_MAX { 0 } else { ROUND_COUNT };
        begun.chain(others.take(room)).take(ROUND_COUNT).copied().collect()
    }

    /// Everything was read: what sealed containers hold is compared soon.
    pub(crate) fn all_due(&mut self) {
        (self.listed, self.at_once) = (None, true);
    }

    /// False while enough others make their trees, and for one that was removed.
    pub fn may_ask(&self, home: ContainerId) -> bool {
        let may_build = self.building.len() < BUILDING_COUNT_MAX || self.building.contains(&home);
        may_build && self.known.contains_key(&home)
    }

    /// A container was asked for, as [`Self::may_ask`] allowed. It may have been removed meanwhile. False: its members
    /// made no trees in time.
    pub fn on_outcome(&mut self, home: ContainerId, outcome: TreeOutcome, now: Duration) -> bool {
        let Some(known) = self.known.get(&home).copied() else { return true };
        let since = known.building.unwrap_or(now);
        let is_late = outcome == TreeOutcome::Building && now.saturating_sub(since) >= BUILDING_MAX;
        let (after, compared) = match outcome {
            TreeOutcome::Alike(root) => (AGAIN_AFTER, TreesCompared::Alike(root)),
            TreeOutcome::Differ { contradictions_only: true } => (AGAIN_AFTER, TreesCompared::Differ),
            TreeOutcome::Differ { contradictions_only: false } => (LATER, TreesCompared::Differ),
            TreeOutcome::Building if !is_late => (BUILT_AFTER, known.compared),
            TreeOutcome::Building | TreeOutcome::Later => (LATER, known.compared),
        };
        if matches!(outcome, TreeOutcome::Alike(_)) {
            self.contradictions.retain(|_, of| *of != home);
        }
        let building = (outcome == TreeOutcome::Building && !is_late).then_some(since);
        self.keep(home, Known { due: now + after, compared, building });
        !is_late
    }

    /// Of the blocks of a container these differ: replicas of others do not contradict each other any more.
    pub fn on_differing(&mut self, home: ContainerId, blocks: &[BlockId]) {
        self.contradictions.retain(|block, of| *of != home || blocks.contains(block));
    }

    /// Replicas of a block agree with their own checksums and not with each other. True: that is news.
    pub fn on_contradiction(&mut self, block: BlockId, home: ContainerId) -> bool {
        self.known.contains_key(&home) && self.contradictions.insert(block, home).is_none()
    }

    /// What must hold within it, and with the containers there are. Looks at everything.
    pub(crate) fn check(&self, cluster: &Cluster) {
        let turns: BTreeSet<_> = self.known.iter().map(|(home, known)| (known.due, *home)).collect();
        assert_eq!(self.due, turns, "turns of sealed containers");
        let building = self.known.iter().filter(|(_, known)| known.building.is_some());
        assert!(building.map(|(home, _)| home).eq(&self.building), "{:?} make their trees", self.building);
        for home in self.known.keys() {
            assert!(cluster.is_sealed(*home), "{home} has its turn, and is not sealed");
        }
        for (block, home) in &self.contradictions {
            assert!(
                self.known.contains_key(home),
                "replicas of {block} contradict each other in {home}, which is gone"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, rules};
    use blocks::{Command, Reply};

    const ALIKE: TreeOutcome = TreeOutcome::Alike(TreeSum { count: 0, high: 0, low: 0 });
    const DIFFER: TreeOutcome = TreeOutcome::Differ { contradictions_only: true };

    #[test]
    fn containers_have_their_turn_by_the_clock_and_are_forgotten_when_they_are_removed() {
        let homes: Vec<ContainerId> = (1..=30).map(ContainerId).collect();
        let mut queue = HashTreeQueue::default();
        queue.list(&homes);
        let now = Duration::from_secs(10);
        let first = queue.due(now);
        assert_eq!(first.len(), ROUND_COUNT);
        first.iter().for_each(|home| assert!(queue.on_outcome(*home, ALIKE, now)));
        assert_eq!(queue.due(now).len(), 10, "the others");
        queue.on_outcome(ContainerId(25), TreeOutcome::Building, now);
        assert!(!queue.due(now).contains(&ContainerId(25)), "its members get a moment");
        let now = now + BUILT_AFTER;
        assert_eq!(queue.due(now)[0], ContainerId(25), "it is gone on with");
        queue.on_outcome(ContainerId(26), TreeOutcome::Building, now);
        assert_eq!(queue.due(now + BUILT_AFTER), [ContainerId(25), ContainerId(26)], "and others wait");
        queue.on_outcome(ContainerId(25), DIFFER, now);
        queue.on_outcome(ContainerId(26), TreeOutcome::Later, now);
        let later = now + LATER;
        let order = queue.due(later);
        assert_eq!((order.len(), order.last()), (9, Some(&ContainerId(26))), "those that wait longer come first");
        let news = [(), ()].map(|()| queue.on_contradiction(BlockId(5), ContainerId(1)));
        assert_eq!(news, [true, false]);
        assert_eq!(queue.of(ContainerId(1)), TreesCompared::Alike(TreeSum::default()));
        queue.on_outcome(ContainerId(2), ALIKE, now);
        assert_eq!(queue.contradictions().count(), 1, "of another one");
        queue.on_outcome(ContainerId(1), ALIKE, now);
        assert_eq!(queue.contradictions().count(), 0, "somebody put it right");
        queue.on_contradiction(BlockId(6), ContainerId(1));
        queue.on_differing(ContainerId(2), &[]);
        queue.on_differing(ContainerId(1), &[BlockId(6)]);
        assert_eq!(queue.contradictions().count(), 1, "it still differs");
        queue.on_removed(ContainerId(1));
        assert_eq!((queue.of(ContainerId(1)), queue.contradictions().count()), (TreesCompared::Never, 0));
        queue.all_due();
        queue.list(&homes[1..]);
        assert_eq!(queue.due(now).len(), ROUND_COUNT, "all that are left");
    }

    /// Two containers have a replica whose checksums cannot be read, so their members answer for ever that their trees
    /// are being made.
    #[test]
    fn containers_without_trees_hold_up_the_others_for_a_while_only() {
        let homes: Vec<ContainerId> = (1..=5).map(ContainerId).collect();
        let mut queue = HashTreeQueue::default();
        queue.list(&homes);
        let (mut now, mut compared, mut late) = (Duration::ZERO, BTreeSet::new(), BTreeSet::new());
        while now < BUILDING_MAX + LATER {
            for home in queue.due(now) {
                if !queue.may_ask(home) {
                    continue;
                }
                let has_trees = home.0 > 2;
                let outcome = if has_trees { ALIKE } else { TreeOutcome::Building };
                if !queue.on_outcome(home, outcome, now) {
                    late.insert(home.0);
                }
                compared.extend(has_trees.then_some(home));
            }
            now += Duration::from_secs(2);
        }
        assert_eq!((compared.len(), late), (3, BTreeSet::from([1, 2])));
    }

    /// It is removed while its members are asked, and what they answer comes after that.
    #[test]
    fn answers_for_a_container_that_was_removed_change_nothing() {
        let mut leader = leader();
        let apply = |leader: &mut crate::Leader, command: &Command| {
            leader.on_applied(command, &Ok(Reply::Done), rules());
            leader.check();
        };
        assert!(!leader.hash_trees.list_some(&leader.cluster));
        assert_eq!(leader.hash_trees.due(NOW), [], "it is open");
        apply(&mut leader, &Command::Seal { container: HOME, len: 0 });
        apply(&mut leader, &Command::FinishSeal { container: HOME });
        leader.hash_trees.list_some(&leader.cluster);
        assert_eq!(leader.hash_trees.due(NOW), [HOME]);
        assert!(leader.hash_trees.may_ask(HOME) && leader.hash_trees.on_contradiction(block(1), HOME));
        apply(&mut leader, &Command::RemoveContainer { container: HOME });
        assert!(leader.hash_trees.on_outcome(HOME, TreeOutcome::Building, NOW));
        assert!(!leader.hash_trees.may_ask(HOME) && !leader.hash_trees.on_contradiction(block(1), HOME));
        leader.check();
        assert_eq!(leader.hash_trees.due(NOW), []);
    }
}
