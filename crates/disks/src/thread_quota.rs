//! How many of the runtime's threads a disk may hold: what hangs on one disk leaves threads for all others.
//!
//! Promise: work for one disk holds at most its quota of the pool, and so does work that asks all of them; all quotas
//! together are less than the pool has. A refused caller is told to try another node. Once a disk is declared failed
//! nobody waits for it any longer.

use io::ThreadQuota;

/// Threads that the disks may hold together: three quarters of the runtime's pool (tokio's default is 512).
const THREAD_COUNT_MAX: usize = 384;
/// One disk needs no more to be kept busy: more are only in each other's way.
const DISK_THREAD_COUNT_MAX: usize = 64;
/// Threads that ask all disks.
const ALL_THREAD_COUNT_MAX: usize = 32;

/// The quota of one of so many disks.
pub(crate) fn of_disk(disk_count: usize) -> ThreadQuota {
    ThreadQuota::new((THREAD_COUNT_MAX / disk_count.max(1)).clamp(1, DISK_THREAD_COUNT_MAX))
}

pub(crate) fn of_all() -> ThreadQuota {
    ThreadQuota::new(ALL_THREAD_COUNT_MAX)
}
