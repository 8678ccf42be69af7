//! The digests that this member had after the last entries, which the others are compared with.

use ::types::RowsDigest;
use std::collections::VecDeque;

/// Entries whose digests a member keeps: 1 MiB, a few seconds of work, so that members are asked for one that they
/// still have.
const KEPT_COUNT: usize = 1 << 16;

/// Digests after the last entries.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    /// By index of the entry, ascending.
    kept: VecDeque<(u64, RowsDigest)>,
}

impl Digests {
    pub(crate) fn push(&mut self, index: u64, digest: RowsDigest) {
        if self.kept.len() == KEPT_COUNT {
            self.kept.pop_front();
        }
        self.kept.push_back((index, digest));
    }

    /// After the entry with this index, if that is one of the last that this process applied.
    pub(crate) fn at(&self, index: u64) -> Option<RowsDigest> {
        let place = self.kept.binary_search_by_key(&index, |(at, _)| *at).ok()?;
        Some(self.kept[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digests_are_kept() {
        let mut digests = Digests::default();
        for index in 3..KEPT_COUNT as u64 + 5 {
            digests.push(index, RowsDigest(2 * index));
        }
        assert_eq!((digests.at(4), digests.at(5)), (None, Some(RowsDigest(10))));
        assert_eq!(digests.at(KEPT_COUNT as u64 + 4), Some(RowsDigest(2 * KEPT_COUNT as u64 + 8)));
        assert_eq!(digests.at(KEPT_COUNT as u64 + 5), None);
    }
}
