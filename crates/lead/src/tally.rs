//! Counts or sums of bytes by key, and their total.
//!
//! Promise: a key is listed only while something is counted under it, and nothing is subtracted that was not added.
//! Clients claim lengths, so sums have room for any number of them, and are reported as at most `u64::MAX`.

use std::collections::BTreeMap;
use std::fmt::Debug;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally<K> {
    counts: BTreeMap<K, u128>,
    total: u128,
}

fn saturated(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), total: 0 }
    }
}

impl<K: Ord + Copy + Debug> Tally<K> {
    pub(crate) fn add(&mut self, key: K, more: u64) {
        if more == 0 {
            return;
        }
        // The sum is full only after 2^64 additions.
        self.total += u128::from(more);
        *self.counts.entry(key).or_default() += u128::from(more);
    }

    pub(crate) fn take(&mut self, key: K, less: u64) {
        if less == 0 {
            return;
        }
        let (before, less) = (self.counts.get(&key).copied().unwrap_or_default(), u128::from(less));
        assert!(before >= less, "{less} are taken from {before} of {key:?}");
        if before == less {
            self.counts.remove(&key);
        } else {
            self.counts.insert(key, before - less);
        }
        self.total -= less;
    }

    pub(crate) fn get(&self, key: K) -> u64 {
        self.counts.get(&key).copied().map_or(0, saturated)
    }

    pub(crate) fn has(&self, key: K) -> bool {
        self.counts.contains_key(&key)
    }

    /// How many keys something is counted under.
    pub(crate) fn key_count(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn total(&self) -> u64 {
        saturated(self.total)
    }
}

impl<K: Ord + Copy + Debug> FromIterator<(K, u64)> for Tally<K> {
    /// A recount, to compare with what was kept along.
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(counted: I) -> Self {
        let mut tally = Self::default();
        counted.into_iter().for_each(|(key, more)| tally.add(key, more));
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_listed_while_something_is_counted_under_it() {
        let mut tally = Tally::default();
        tally.add('a', 3);
        tally.add('b', 0);
        tally.add('a', 2);
        assert_eq!((tally.get('a'), tally.has('b'), tally.key_count(), tally.total()), (5, false, 1, 5));
        tally.take('a', 5);
        tally.take('b', 0);
        assert_eq!(tally, Tally::default());
        assert_eq!(Tally::from_iter([('a', 1), ('b', 2), ('a', 4)]).get('a'), 5);
    }

    /// Nodes may report replicas of any length, and blocks may be claimed to have any.
    #[test]
    fn sums_have_room_for_whatever_is_claimed() {
        let mut tally = Tally::from_iter([('a', u64::MAX), ('b', u64::MAX), ('a', u64::MAX)]);
        assert_eq!((tally.get('a'), tally.total()), (u64::MAX, u64::MAX));
        tally.take('a', u64::MAX);
        tally.take('a', u64::MAX - 7);
        tally.take('b', u64::MAX);
        assert_eq!((tally.get('a'), tally.has('b'), tally.total()), (7, false, 7));
    }

    #[test]
    #[should_panic(expected = "2 are taken from 1 of 'a'")]
    fn nothing_is_taken_that_was_not_added() {
        let mut tally = Tally::from_iter([('a', 1), ('b', 7)]);
        tally.take('a', 2);
    }
}
