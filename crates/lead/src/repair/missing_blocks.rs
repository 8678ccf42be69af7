//! Blocks of which no live node has a readable copy.
//!
//! Promise: a missing block is listed under one container. The number of names is bounded. The bytes of blocks without
//! a name are counted by container, as its last comparison found them.

use crate::replica_fate::ReportedReplica;
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, ContainerId, FileId, Generation};

/// Names of missing blocks that are kept for people.
const NAMED_COUNT_MAX: usize = 10_000;

/// A block that no live node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub block: BlockId,
    pub file: FileId,
    pub home: ContainerId,
}

/// What the rows say of a missing block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) generation: Generation,
    pub(super) len: u64,
    pub(super) file: FileId,
    pub(super) home: ContainerId,
}

#[derive(Debug, Default)]
pub(super) struct MissingBlocks {
    named: BTreeMap<BlockId, Recorded>,
    named_of: BTreeMap<ContainerId, BTreeSet<BlockId>>,
    /// Bytes of missing blocks beyond those that are named.
    unnamed_len_of: BTreeMap<ContainerId, u64>,
}

impl MissingBlocks {
    /// True: it was not known, and is named from now on.
    pub(super) fn insert(&mut self, block: BlockId, recorded: Recorded) -> bool {
        let is_new = !self.contains(block);
        if self.is_full() && is_new {
            return false;
        }
        self.remove(block); // its home may have been another one
        self.named.insert(block, recorded);
        self.named_of.entry(recorded.home).or_default().insert(block);
        is_new
    }

    /// A live node has the block, or no file has it any more.
    pub(super) fn remove(&mut self, block: BlockId) {
        let Some(recorded) = self.named.remove(&block) else { return };
        let of_home = self.named_of.get_mut(&recorded.home).expect("a missing block is listed under its container");
        of_home.remove(&block);
        if of_home.is_empty() {
            self.named_of.remove(&recorded.home);
        }
    }

    /// A node has the block at `generation`.
    pub(super) fn on_put(&mut self, block: BlockId, generation: Generation) {
        if self.named.get(&block).is_some_and(|recorded| recorded.generation <= generation) {
            self.remove(block);
        }
    }

    /// A comparison of `home` begins: it finds anew which of its blocks are missing.
    pub(super) fn forget_named_of(&mut self, home: ContainerId) {
        for block in self.named_of.remove(&home).unwrap_or_default() {
            let was_named = self.named.remove(&block).is_some();
            assert!(was_named, "{block} is listed as missing of {home}");
        }
    }

    /// A comparison of `home` has ended, and found so many bytes that are missing and have no name here.
    pub(super) fn set_unnamed_len(&mut self, home: ContainerId, len: u64) {
        if len == 0 {
            self.unnamed_len_of.remove(&home);
        } else {
            self.unnamed_len_of.insert(home, len);
        }
    }

    pub(super) fn forget_unnamed(&mut self, is_gone: impl Fn(ContainerId) -> bool) {
        self.unnamed_len_of.retain(|home, _| !is_gone(*home));
    }

    /// Missing bytes of each container, named or not.
    pub(super) fn lens(&self) -> impl Iterator<Item = (ContainerId, u64)> + '_ {
        let len = |block: &BlockId| self.named.get(block).map_or(0, |recorded| recorded.len);
        let mut lens = self.unnamed_len_of.clone();
        for (home, blocks) in &self.named_of {
            let of_home = lens.entry(*home).or_default();
            *of_home = types::len::total(blocks.iter().map(len).chain([*of_home]));
        }
        lens.into_iter()
    }

    pub(super) fn contains(&self, block: BlockId) -> bool {
        self.named.contains_key(&block)
    }

    pub(super) fn has_named_of(&self, home: ContainerId) -> bool {
        self.named_of.contains_key(&home)
    }

    /// The block is missing, and this replica is no better than those that were there when that was found, so that no
    /// copy can be made of it. `is_damaged`: it is known to be.
    pub(super) fn is_useless(&self, reported: &ReportedReplica, is_damaged: bool) -> bool {
        let is_no_source = |recorded: &Recorded| {
            !reported.finalized
                || reported.generation < recorded.generation
                || reported.len < recorded.len
                || is_damaged
        };
        self.named.get(&reported.block).is_some_and(is_no_source)
    }

    /// There may be more missing blocks than are named.
    pub(super) fn is_full(&self) -> bool {
        self.named.len() >= NAMED_COUNT_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.named.len()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.named.keys().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Missing> + '_ {
        self.named.iter().map(|(block, recorded)| Missing { block: *block, file: recorded.file, home: recorded.home })
    }

    pub(super) fn check(&self) {
        let mut of: BTreeMap<ContainerId, BTreeSet<BlockId>> = BTreeMap::new();
        self.named.iter().for_each(|(block, recorded)| _ = of.entry(recorded.home).or_default().insert(*block));
        assert_eq!(self.named_of, of, "missing blocks of each container");
        assert!(self.named.len() <= NAMED_COUNT_MAX, "{} missing blocks are named", self.named.len());
        assert!(self.unnamed_len_of.values().all(|len| *len > 0), "no container is listed for nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    const HOME: ContainerId = ContainerId(1);

    fn recorded(home: ContainerId) -> Recorded {
        Recorded { generation: Generation(5), len: 10, file: InodeId(20_000), home }
    }

    #[test]
    fn a_block_is_missing_of_one_container_until_a_node_has_it() {
        let (mut missing, block, elsewhere) = (MissingBlocks::default(), BlockId::new(HOME, 1), ContainerId(2));
        assert!(missing.insert(block, recorded(HOME)));
        assert!(!missing.insert(block, recorded(elsewhere)), "it was known, and has moved");
        missing.check();
        assert!(!missing.has_named_of(HOME) && missing.has_named_of(elsewhere));
        missing.on_put(block, Generation(4));
        assert!(missing.contains(block), "an older replica");
        missing.on_put(block, Generation(5));
        assert_eq!((missing.len(), missing.iter().count()), (0, 0));
        missing.check();
    }

    #[test]
    fn bytes_count_whether_their_blocks_have_names_or_not() {
        let mut missing = MissingBlocks::default();
        missing.insert(BlockId::new(HOME, 1), recorded(HOME));
        missing.insert(BlockId::new(HOME, 2), recorded(HOME));
        missing.set_unnamed_len(HOME, 7);
        missing.set_unnamed_len(ContainerId(2), 3);
        missing.check();
        assert_eq!(missing.lens().collect::<Vec<_>>(), [(HOME, 27), (ContainerId(2), 3)]);
        missing.forget_named_of(HOME);
        missing.set_unnamed_len(HOME, 0);
        missing.forget_unnamed(|home| home == ContainerId(2));
        missing.check();
        assert_eq!(missing.lens().count(), 0);
    }

    #[test]
    fn names_are_bounded() {
        let mut missing = MissingBlocks::default();
        let named = |index: &u32| BlockId::new(HOME, *index);
        let count = (0..NAMED_COUNT_MAX as u32 + 10).filter(|at| missing.insert(named(at), recorded(HOME))).count();
        assert_eq!((count, missing.len(), missing.is_full()), (NAMED_COUNT_MAX, NAMED_COUNT_MAX, true));
        missing.check();
    }

    #[test]
    fn a_replica_that_is_older_shorter_open_or_damaged_is_useless() {
        let (mut missing, block) = (MissingBlocks::default(), BlockId::new(HOME, 1));
        let reported =
            ReportedReplica { block, generation: Generation(5), len: 10, file: None, home: None, finalized: true };
        assert!(
            !missing.is_useless(&ReportedReplica { finalized: false, ..reported }, true),
            "the block is not missing"
        );
        missing.insert(block, recorded(HOME));
        assert!(!missing.is_useless(&reported, false) && missing.is_useless(&reported, true));
        let worse = [
            ReportedReplica { generation: Generation(4), ..reported },
            ReportedReplica { len: 9, ..reported },
            ReportedReplica { finalized: false, ..reported },
        ];
        assert!(worse.iter().all(|reported| missing.is_useless(reported, false)));
    }
}
