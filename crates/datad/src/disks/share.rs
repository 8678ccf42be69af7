//! How many of the runtime's threads a disk may hold: what hangs on one disk leaves threads for all others.
//!
//! Promise: work for one disk holds at most its share of the pool, and so does work that asks all of them; all shares
//! together are less than the pool has. Who is refused is told to try another node. Once a disk is given up nobody
//! waits for it any longer.

use super::{Disks, Result};
use crate::disks::Disk;
use container::ReplicaError;
use io::Share;
use std::sync::atomic::Ordering;
use types::BlockId;

/// Threads that the disks may hold together: three quarters of the runtime's pool (tokio's default is 512).
const THREAD_COUNT_MAX: usize = 384;
/// One disk needs no more to be kept busy: more are only in each other's way.
const DISK_THREAD_COUNT_MAX: usize = 64;
/// Threads that ask all disks.
const ALL_THREAD_COUNT_MAX: usize = 32;

/// The share of one of so many disks.
pub(super) fn of_disk(disk_count: usize) -> Share {
    Share::new((THREAD_COUNT_MAX / disk_count.max(1)).clamp(1, DISK_THREAD_COUNT_MAX))
}

pub(super) fn of_all() -> Share {
    Share::new(ALL_THREAD_COUNT_MAX)
}

impl Disk {
    /// It was given up, and threads may be waiting for it still.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    pub(crate) fn share(&self) -> &Share {
        &self.share
    }
}

impl Disks {
    /// A disk has not answered for too long: nothing counts any more that is there, and nobody waits for it.
    pub(super) fn give_up(&self, number: usize, reason: String) {
        let disk = &self.inner.disks[number];
        disk.volume.give_up(reason);
        disk.hangs.store(true, Ordering::Release);
        disk.share.give_up();
        // Work that asks all of them may hang in it, too; from now on it is not asked.
        self.inner.all.renew();
    }

    /// Of the disk that has this block.
    pub(crate) fn share(&self, block: BlockId) -> &Share {
        self.place(block).map_or(&self.inner.all, |at| &self.inner.disks[at].share)
    }

    /// Does what may wait for the disk that has this block.
    pub(crate) async fn for_block<T: Send + 'static>(
        &self,
        block: BlockId,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        self.run(self.share(block), work).await
    }

    /// Does what may wait for this disk.
    pub(crate) async fn for_disk<T: Send + 'static>(
        &self,
        number: usize,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        self.run(&self.inner.disks[number].share, work).await
    }

    /// Does what may wait for any of the disks.
    pub(crate) async fn for_all<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T> {
        self.run(&self.inner.all, work).await
    }

    async fn run<T: Send + 'static>(&self, share: &Share, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T> {
        let disks = self.clone();
        share.run(move || work(&disks)).await.map_err(|_stuck| ReplicaError::Hangs)
    }
}
