//! Which disk has a block: a byte for each block, in memory.
//!
//! ```text
//! block >> 8 ──▶ page: 256 bytes, one for each block    0 none · n + 1 disk number n
//! ```
//!
//! In memory, and not asked of one disk after the other, so that a disk that hangs is not waited for by those who want
//! nothing of it. The blocks of a container have neighbouring numbers and mostly live on the same nodes: small ones
//! cost little more than their byte, large ones (forty in a container) about seven. It is built when the node starts,
//! from the volumes' own indexes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::BlockId;

/// Disks of a node; more would not fit the byte.
pub const DISK_COUNT_MAX: usize = 200;
const PAGE_COUNT: usize = 256;
/// Parts with a lock of their own.
const SHARD_COUNT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Index {
    shards: [Shard; SHARD_COUNT],
}

type Shard = Mutex<HashMap<u64, Box<Page>>>;

#[derive(Debug)]
struct Page {
    places: [u8; PAGE_COUNT],
    count: u16,
}

impl Index {
    pub(crate) fn get(&self, block: BlockId) -> Option<usize> {
        let (page, at) = split(block);
        let place = self.shard(page).get(&page)?.places[at];
        usize::from(place).checked_sub(1)
    }

    pub(crate) fn set(&self, block: BlockId, disk: usize) {
        let place = u8::try_from(disk + 1).expect("the number of disks was bounded at the start");
        let (page, at) = split(block);
        let mut shard = self.shard(page);
        let page = shard.entry(page).or_insert_with(|| Box::new(Page { places: [0; PAGE_COUNT], count: 0 }));
        page.count += u16::from(page.places[at] == 0);
        page.places[at] = place;
        if cfg!(debug_assertions) {
            page.check();
        }
    }

    /// Takes `disk` as the place of a block, unless one is known. Answers which it is.
    pub(crate) fn get_or_set(&self, block: BlockId, disk: usize) -> usize {
        // Who sets the same block at the same time holds a claim, or does the same: the last one counts.
        self.get(block).unwrap_or_else(|| {
            self.set(block, disk);
            disk
        })
    }

    /// The block is not on `disk` any more.
    pub(crate) fn forget(&self, block: BlockId, disk: usize) {
        let (page, at) = split(block);
        let mut shard = self.shard(page);
        let Some(known) = shard.get_mut(&page) else { return };
        if usize::from(known.places[at]) == disk + 1 {
            known.places[at] = 0;
            known.count -= 1;
            match known.count {
                0 => _ = shard.remove(&page),
                _ if cfg!(debug_assertions) => known.check(),
                _ => {}
            }
        }
    }

    fn shard(&self, page: u64) -> MutexGuard<'_, HashMap<u64, Box<Page>>> {
        lock(&self.shards[shard_of(page)])
    }

    /// Pages are where they are looked for, count what they have, and name disks that there are. This goes over all of
    /// them: a debug build looks at the page that a change is in, with each change.
    pub(crate) fn check(&self, disk_count: usize) {
        for (number, shard) in self.shards.iter().enumerate() {
            for (place, page) in lock(shard).iter() {
                assert_eq!(shard_of(*place), number, "page {place} is in its shard");
                page.check();
                assert!(page.places.iter().all(|place| usize::from(*place) <= disk_count), "a disk that there is not");
            }
        }
    }
}

impl Page {
    fn check(&self) {
        let count = self.places.iter().filter(|place| **place > 0).count();
        assert!(count > 0 && count == usize::from(self.count), "a page counts {} blocks and has {count}", self.count);
    }
}

fn lock(shard: &Shard) -> MutexGuard<'_, HashMap<u64, Box<Page>>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(page: u64) -> usize {
    // Neighbours into one shard would be as good; this spreads containers.
    (page ^ (page >> 12)) as usize % SHARD_COUNT
}

fn split(block: BlockId) -> (u64, usize) {
    (block.0 / PAGE_COUNT as u64, (block.0 % PAGE_COUNT as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_where_it_was_put_last() {
        let index = Index::default();
        let blocks = [0, 1, 255, 256, 1 << 20, u64::MAX >> 1].map(BlockId);
        for (disk, block) in blocks.into_iter().enumerate() {
            assert_eq!(index.get(block), None);
            index.set(block, disk);
        }
        assert_eq!(blocks.map(|block| index.get(block)), [0, 1, 2, 3, 4, 5].map(Some));
        assert_eq!(index.get_or_set(blocks[1], 7), 1);
        assert_eq!(index.get_or_set(BlockId(77), 7), 7);
        index.check(8);
        index.set(blocks[0], 9);
        index.forget(blocks[0], 0);
        assert_eq!(index.get(blocks[0]), Some(9), "it has moved since");
        for block in blocks {
            index.get(block).into_iter().for_each(|disk| index.forget(block, disk));
        }
        index.check(10);
        index.forget(BlockId(77), 7);
        assert!(index.shards.iter().all(|shard| shard.lock().unwrap().is_empty()), "nothing is left behind");
    }
}
