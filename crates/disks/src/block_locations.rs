//! Where blocks are, and who may change that.
//!
//! Promise: a node with one disk spends no memory and no time at its start on an answer that is known; everything else
//! is the same for it.

use crate::claims::{Claim, Claims};
use crate::index::Index;
use types::BlockId;

/// Chosen at the start, by the number of disks that were opened.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a node has one")]
pub(crate) enum BlockLocations {
    /// All is there, and the volume needs no help to keep its blocks apart.
    One,
    Several {
        index: Index,
        claims: Claims,
    },
}

impl BlockLocations {
    pub(crate) fn several(index: Index) -> Self {
        Self::Several { index, claims: Claims::default() }
    }

    /// Where a block is, if it is here.
    pub(crate) fn get(&self, block: BlockId) -> Option<usize> {
        match self {
            Self::One => Some(0),
            Self::Several { index, .. } => index.get(block),
        }
    }

    /// Where the index says that a block is. One disk has no index: it may have the block or not.
    pub(crate) fn indexed(&self, block: BlockId) -> Option<usize> {
        match self {
            Self::One => None,
            Self::Several { index, .. } => index.get(block),
        }
    }

    pub(crate) fn set(&self, block: BlockId, at: usize) {
        match self {
            Self::One => assert_eq!(at, 0, "there is one disk"),
            Self::Several { index, .. } => index.set(block, at),
        }
    }

    /// See [`Index::get_or_set`].
    pub(crate) fn get_or_set(&self, block: BlockId, at: usize) -> usize {
        match self {
            Self::One => 0,
            Self::Several { index, .. } => index.get_or_set(block, at),
        }
    }

    /// The block is not on this disk any more.
    pub(crate) fn forget(&self, block: BlockId, at: usize) {
        match self {
            Self::One => assert_eq!(at, 0, "there is one disk"),
            Self::Several { index, .. } => index.forget(block, at),
        }
    }

    /// See [`Claims::take`].
    pub(crate) fn claim(&self, block: BlockId, is_declared_failed: impl Fn(usize) -> bool) -> Option<Claim<'_>> {
        match self {
            Self::One => None,
            Self::Several { claims, .. } => Some(claims.take(block, is_declared_failed)),
        }
    }

    pub(crate) fn check(&self, disk_count: usize) {
        self.check_claims(disk_count);
        if let Self::Several { index, .. } = self {
            index.check(disk_count);
        }
    }

    /// The same without the index.
    pub(crate) fn check_claims(&self, disk_count: usize) {
        match self {
            Self::One => assert_eq!(disk_count, 1, "where a block is on several disks is noted"),
            Self::Several { claims, .. } => {
                assert!(disk_count > 1, "one disk needs no index");
                claims.check(disk_count);
            }
        }
    }

    /// The disk that the holder of a claim on this block works on.
    pub(crate) fn claimed_at(&self, block: BlockId) -> Option<usize> {
        match self {
            Self::One => None,
            Self::Several { claims, .. } => claims.disk_of(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disk_has_all_and_several_what_was_noted() {
        let (one, several) = (BlockLocations::One, BlockLocations::several(Index::default()));
        let block = BlockId(7);
        assert_eq!((one.get(block), one.indexed(block), one.get_or_set(block, 0)), (Some(0), None, 0));
        assert_eq!((several.get(block), several.indexed(block)), (None, None));
        assert_eq!((several.get_or_set(block, 2), several.get(block), several.indexed(block)), (2, Some(2), Some(2)));
        one.forget(block, 0);
        several.forget(block, 2);
        assert_eq!((one.get(block), several.get(block)), (Some(0), None));
        assert!(one.claim(block, |_| false).is_none() && several.claim(block, |_| false).is_some());
    }
}
