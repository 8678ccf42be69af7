//! Single blocks to compare, and blocks that are being copied to another container.
//!
//! Promise: doubtful blocks are taken in turn, in order of their ids. So one that returns each time does not delay the
//! others. Their number is bounded; the audit of all containers finds what does not fit.

use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, ContainerId};

/// With more, the audit of all containers finds those beyond.
const DOUBTFUL_COUNT_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct DoubtfulBlocks {
    waiting: BTreeSet<BlockId>,
    /// The first block of the next turn.
    next: BlockId,
    /// Blocks that are being copied to another container.
    moving: BTreeMap<BlockId, ContainerId>,
}

impl DoubtfulBlocks {
    pub(super) fn insert(&mut self, block: BlockId) {
        if self.waiting.len() < DOUBTFUL_COUNT_MAX {
            self.waiting.insert(block);
        }
    }

    pub(super) fn take(&mut self, count_max: usize) -> Vec<BlockId> {
        let later = self.waiting.range(self.next..).take(count_max).copied();
        let mut taken: Vec<BlockId> = later.collect();
        if taken.len() < count_max {
            let first = self.waiting.range(..self.next).take(count_max - taken.len()).copied();
            taken.extend(first);
        }
        for block in &taken {
            self.waiting.remove(block);
        }
        self.next = taken.last().map_or(BlockId(0), |last| BlockId(last.0.saturating_add(1)));
        taken
    }

    pub(super) fn set_moving(&mut self, block: BlockId, to: ContainerId) {
        self.moving.insert(block, to);
    }

    pub(super) fn moving_to(&self, block: BlockId) -> Option<ContainerId> {
        self.moving.get(&block).copied()
    }

    pub(super) fn end_moving(&mut self, block: BlockId) {
        self.moving.remove(&block);
    }

    pub(super) fn check(&self) {
        assert!(self.waiting.len() <= DOUBTFUL_COUNT_MAX, "{} doubtful blocks are remembered", self.waiting.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> BlockId {
        BlockId(number)
    }

    #[test]
    fn each_block_has_its_turn_though_others_come_back() {
        let mut blocks = DoubtfulBlocks::default();
        (1..=5).for_each(|number| blocks.insert(block(number)));
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let taken = blocks.take(2);
            assert_eq!(taken.len(), 2);
            seen.extend(taken.iter().copied());
            taken.into_iter().for_each(|back| blocks.insert(back));
            blocks.check();
        }
        assert_eq!(seen.len(), 5);
        assert_eq!(blocks.take(10).len(), 5);
        assert_eq!(blocks.take(10), []);
    }

    #[test]
    fn doubtful_blocks_are_bounded() {
        let mut blocks = DoubtfulBlocks::default();
        (0..DOUBTFUL_COUNT_MAX as u64 + 10).for_each(|number| blocks.insert(block(number)));
        blocks.check();
        assert_eq!(blocks.take(usize::MAX).len(), DOUBTFUL_COUNT_MAX);
    }

    #[test]
    fn a_block_moves_to_one_container() {
        let mut blocks = DoubtfulBlocks::default();
        blocks.set_moving(block(1), ContainerId(2));
        blocks.set_moving(block(1), ContainerId(3));
        assert_eq!((blocks.moving_to(block(1)), blocks.moving_to(block(2))), (Some(ContainerId(3)), None));
        blocks.end_moving(block(1));
        assert_eq!(blocks.moving_to(block(1)), None);
        blocks.check();
    }
}
