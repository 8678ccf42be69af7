//! What must be true of the disks of a node, whatever was done with them.

use crate::disks::Disks;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use types::NodeId;

/// In debug builds all that must hold is checked after a change, once in so many; in this crate's own tests each time.
const CHECK_EACH: u32 = if cfg!(test) { 1 } else { 256 };

impl Disks {
    /// Every relation between the parts that holds at any time, also while others change them. It asks no disk, and
    /// goes over the whole index.
    pub fn check(&self) {
        self.check_disks();
        self.block_locations().check(self.disks().len());
    }

    /// The same without the index.
    fn check_disks(&self) {
        let disks = self.disks();
        assert!(!disks.is_empty(), "a node has a disk that was opened");
        let mut volumes: HashSet<NodeId> = HashSet::new();
        for disk in disks {
            let identity = disk.identity();
            assert_eq!(identity.node, self.node_id(), "all disks are of the same node");
            assert!(volumes.insert(identity.volume), "{} is there twice", disk.dir().display());
            assert!(!disk.hangs() || !disk.is_sound(), "{} was given up, and is sound", disk.dir().display());
        }
        let unopened = self.unopened().iter().filter_map(|unopened| unopened.volume);
        unopened.for_each(|volume| assert!(volumes.insert(volume), "{volume} was opened, or is named twice"));
        if let Some(pool) = self.pool() {
            for disk in disks.iter().filter(|disk| disk.is_sound()) {
                assert_eq!(disk.identity().pool.as_ref(), Some(&pool), "{} takes replicas", disk.dir().display());
            }
        }
        self.check_duplicates();
    }

    /// Something has changed: looks now and then whether all is as it must be. The index looks at itself, where it is
    /// changed: with millions of blocks all of it would take too long.
    pub(crate) fn changed(&self) {
        if cfg!(debug_assertions) && self.change_count().fetch_add(1, Ordering::Relaxed).is_multiple_of(CHECK_EACH) {
            self.check_disks();
            self.block_locations().check_claims(self.disks().len());
        }
    }
}

#[cfg(test)]
impl Disks {
    /// As [`Disks::check`], and what holds while nothing is under way: each replica of a disk that counts is where the
    /// index says, and on no other one. The index may name a disk for more: a copy that broke off leaves its place.
    pub(crate) fn check_at_rest(&self) {
        use types::BlockId;
        self.check();
        let mut known = HashSet::new();
        for (at, disk) in self.disks().iter().enumerate().filter(|(at, _)| !self.is_failed(*at)) {
            for info in disk.volume().replicas(BlockId(0), usize::MAX).unwrap() {
                let block = info.identity.block;
                assert_eq!(self.place(block), Some(at), "{block} counts where it is");
                assert!(known.insert(block), "{block} is on two disks");
            }
        }
    }
}
