//! Sealed containers, by when the hash trees of their members are compared next, and what came of it last. Who compares
//! is [`crate::repair::contents`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId};
use wire::tree::TreeSum;

/// Containers a round. Those whose roots agree cost one question to each member.
const ROUND_COUNT: usize = 20;
/// Sealed containers listed in one round: a million are known after some minutes, and none is compared before its turn
/// in any case.
pub(crate) const LISTED_COUNT: usize = 5000;
/// Containers whose members make their trees at a time.
const BUILDING_COUNT_MAX: usize = 2;
/// One whose members could not be compared.
pub(crate) const LATER: Duration = Duration::from_secs(60);
/// One whose members still make their trees.
const BUILT_AFTER: Duration = Duration::from_secs(3);
/// When members still have no trees after so long, others go first, and they are asked again as those that could not be
/// compared: what they make meanwhile is not lost. Five gigabytes take seconds; a million small files on a disk that
/// seeks take longer. A guess.
const BUILDING_MAX: Duration = Duration::from_secs(600);

/// What is known of what containers hold: soft, as all of it can be asked for again.
#[derive(Debug, Default)]
pub(crate) struct HashTreeQueue {
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
    compared: Compared,
    /// Since when its members make their trees.
    building: Option<Duration>,
}

/// What came of the last comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// There was none yet.
    Never,
    Alike(TreeSum),
    Differ,
}

impl HashTreeQueue {
    pub(crate) fn of(&self, home: ContainerId) -> Compared {
        self.known.get(&home).map_or(Compared::Never, |known| known.compared)
    }

    /// Containers of those.
    pub(crate) fn contradicting(&self) -> BTreeSet<ContainerId> {
        self.contradictions.values().copied().collect()
    }

    pub(crate) fn contradictions(&self) -> impl Iterator<Item = (BlockId, ContainerId)> + '_ {
        self.contradictions.iter().map(|(block, home)| (*block, *home))
    }

    /// Where listing goes on.
    pub(crate) fn listed(&self) -> Option<ContainerId> {
        self.listed
    }

    /// The next sealed containers, [`LISTED_COUNT`] unless there are no more: then the first come next.
    pub(crate) fn list(&mut self, some: &[ContainerId]) {
        for home in some {
            if self.at_once || !self.known.contains_key(home) {
                let known = self.known.get(home).copied();
                let known = known.unwrap_or(Known { due: Duration::ZERO, compared: Compared::Never, building: None });
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

    /// It is not sealed any more: it was removed.
    pub(crate) fn forget(&mut self, home: ContainerId) {
        self.drop_known(home);
        self.contradictions.retain(|_, of| *of != home);
    }

    /// Some whose turn it is.
    pub(crate) fn take_due(&self, now: Duration) -> Vec<ContainerId> {
        // Trees that are being made: the same ones until they are there, or they would push each other out of memory.
        let begun = self.building.iter().filter(|home| self.known.get(home).is_some_and(|known| known.due <= now));
        // Who waits longest comes first, so that those which cannot be compared just now hold up no others.
        let waiting = self.due.range(..=(now, ContainerId(u64::MAX))).map(|(_, home)| home);
        let others = waiting.filter(|home| !self.building.contains(home));
        let room = if self.building.len() >= BUILDING_COUNT_MAX { 0 } else { ROUND_COUNT };
        begun.chain(others.take(room)).take(ROUND_COUNT).copied().collect()
    }

    /// Everything was read: what sealed containers hold is compared soon.
    pub(crate) fn all_due(&mut self) {
        (self.listed, self.at_once) = (None, true);
    }

    /// False while enough others make their trees.
    pub(crate) fn may_ask(&self, home: ContainerId) -> bool {
        self.building.len() < BUILDING_COUNT_MAX || self.building.contains(&home)
    }

    fn building_since(&self, home: ContainerId) -> Option<Duration> {
        self.known.get(&home)?.building
    }

    /// Its members make their trees; it is asked for again soon, unless that has been so for too long: one that can
    /// never be looked through must not hold up the others.
    pub(crate) fn set_building(&mut self, home: ContainerId, now: Duration) {
        let compared = self.of(home);
        let since = self.building_since(home).unwrap_or(now);
        if now.saturating_sub(since) >= BUILDING_MAX {
            tracing::warn!(%home, "a container's members made no hash trees in time; others go first");
            return self.set(home, now + LATER, compared);
        }
        self.keep(home, Known { due: now + BUILT_AFTER, compared, building: Some(since) });
    }

    pub(crate) fn set(&mut self, home: ContainerId, due: Duration, compared: Compared) {
        if matches!(compared, Compared::Alike(_)) {
            self.contradictions.retain(|_, of| *of != home);
        }
        self.keep(home, Known { due, compared, building: None });
    }

    /// Its replicas do not contradict each other any more.
    pub(crate) fn settle(&mut self, block: BlockId) {
        self.contradictions.remove(&block);
    }

    /// True: that is news.
    pub(crate) fn contradict(&mut self, block: BlockId, home: ContainerId) -> bool {
        self.contradictions.insert(block, home).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN_AFTER: Duration = Duration::from_secs(3600);

    #[test]
    fn containers_have_their_turn_by_the_clock_and_are_forgotten_with_their_seal() {
        let homes: Vec<ContainerId> = (1..=30).map(ContainerId).collect();
        let mut contents = HashTreeQueue::default();
        contents.list(&homes);
        let now = Duration::from_secs(10);
        let first = contents.take_due(now);
        assert_eq!(first.len(), ROUND_COUNT);
        for home in &first {
            contents.set(*home, now + AGAIN_AFTER, Compared::Alike(TreeSum::default()));
        }
        assert_eq!(contents.take_due(now).len(), 10, "the others");
        contents.set_building(ContainerId(25), now);
        assert!(!contents.take_due(now).contains(&ContainerId(25)), "its members get a moment");
        let now = now + BUILT_AFTER;
        assert_eq!(contents.take_due(now)[0], ContainerId(25), "it is gone on with");
        contents.set_building(ContainerId(26), now);
        assert_eq!(contents.take_due(now + BUILT_AFTER), [ContainerId(25), ContainerId(26)], "and others wait");
        contents.set(ContainerId(25), now + AGAIN_AFTER, Compared::Differ);
        contents.set(ContainerId(26), now, Compared::Differ);
        let order = contents.take_due(now);
        assert_eq!((order.len(), order.last()), (9, Some(&ContainerId(26))), "those that wait longer come first");
        assert!(contents.contradict(BlockId(5), ContainerId(1)) && !contents.contradict(BlockId(5), ContainerId(1)));
        assert_eq!(contents.of(ContainerId(1)), Compared::Alike(TreeSum::default()));
        contents.set(ContainerId(2), now, Compared::Alike(TreeSum::default()));
        assert_eq!(contents.contradictions().count(), 1, "of another one");
        contents.set(ContainerId(1), now, Compared::Alike(TreeSum::default()));
        assert_eq!(contents.contradictions().count(), 0, "somebody put it right");
        contents.contradict(BlockId(6), ContainerId(1));
        contents.forget(ContainerId(1));
        assert_eq!((contents.of(ContainerId(1)), contents.contradictions().count()), (Compared::Never, 0));
        contents.all_due();
        contents.list(&homes[1..]);
        assert_eq!(contents.take_due(now).len(), ROUND_COUNT, "all that are left");
    }

    /// Two containers have a replica whose checksums cannot be read, so their members answer for ever that their trees
    /// are being made.
    #[test]
    fn containers_without_trees_hold_up_the_others_for_a_while_only() {
        let homes: Vec<ContainerId> = (1..=5).map(ContainerId).collect();
        let mut contents = HashTreeQueue::default();
        contents.list(&homes);
        let (mut now, mut compared) = (Duration::ZERO, BTreeSet::new());
        while now < BUILDING_MAX + LATER {
            for home in contents.take_due(now) {
                if !contents.may_ask(home) {
                    continue;
                }
                match home.0 {
                    1 | 2 => contents.set_building(home, now),
                    _ => {
                        compared.insert(home);
                        contents.set(home, now + AGAIN_AFTER, Compared::Alike(TreeSum::default()));
                    }
                }
            }
            now += Duration::from_secs(2);
        }
        assert_eq!(compared.len(), 3);
    }
}
