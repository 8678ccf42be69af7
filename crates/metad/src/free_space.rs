//! Free space on the disks of this server's log and store.
//!
//! ```text
//!            below `free_warn_len`          below `free_reserve_len`
//!   Ample ─────────────────────▶ Scarce ─────────────────────────▶ Spent
//!         ◀───────────────────── warned of ◀───────────────────────  changes of clients are refused
//!            an eighth above it              an eighth above it
//! ```
//!
//! The store's file never shrinks, but deleted rows leave space inside it, which counts as free too. Otherwise deleting
//! could not free a store that filled its disk. The log needs files of its own. So that space counts at most
//! [`REUSED_TIMES_MAX`] times as much as is free on the disk.
//!
//! Promise: while space is spent, no client's change makes the rows grow. Changes that free, move or finish something
//! are accepted, as are the server's own changes and Raft's. So the last bytes are left for those, and the server
//! accepts everything again when there is space. Without the reserve, the first write that finds no space would end the
//! process. It would do so on all members of a group at about the same time.

use crate::config::Config;
use crate::machine::Machine;
use namespace::Op;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Between two looks. At 500 MB/s a disk loses as much meanwhile as the usual reserve holds.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// What is warned of where nothing is configured, and on a small disk.
const WARN_LEN: u64 = 2 << 30;
/// Of a small disk a tenth. A guess.
const WARN_PART: u64 = 10;
/// The same of the reserve: some flushes of the largest overlay, with the pages that LMDB writes anew for each, and the
/// log kept for others. A small disk would be all reserve; there it is less than what a datanode beside it leaves.
const RESERVE_LEN: u64 = 512 << 20;
/// A guess.
const RESERVE_PART: u64 = 40;
/// Space that comes and goes around a limit changes nothing until it is above it by this part.
const BACK_PART: u64 = 8;
/// A flush writes to new pages before it frees old ones, and an export keeps old ones from being used again: a quarter
/// of each limit stays for that and for the log. A guess: of the usual reserve it is eight segments of the log.
const REUSED_TIMES_MAX: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ample,
    Scarce,
    Exhausted,
}

/// Bytes below which a level begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) warn: u64,
    pub(crate) reserve: u64,
}

impl Limits {
    /// On a disk of `capacity` bytes.
    fn new(config: &Config, capacity: u64) -> Self {
        let reserve = config.free_reserve_len.unwrap_or((capacity / RESERVE_PART).min(RESERVE_LEN));
        let warn = config.free_warn_len.unwrap_or((capacity / WARN_PART).min(WARN_LEN));
        Self { warn: warn.max(reserve), reserve }
    }

    /// The level after `free` bytes were read.
    fn level(self, before: Level, free: u64) -> Level {
        assert!(self.reserve <= self.warn, "what is warned of comes before what is refused: {self:?}");
        let is_below = |limit: u64, level: Level| {
            let limit = if before >= level { limit.saturating_add(limit / BACK_PART) } else { limit };
            free < limit
        };
        match () {
            () if is_below(self.reserve, Level::Exhausted) => Level::Exhausted,
            () if is_below(self.warn, Level::Scarce) => Level::Scarce,
            () => Level::Ample,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) level: Level,
    pub(crate) free_len: u64,
}

#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) limits: Limits,
    /// Its store is in `store_dir`. Weak: a caller must not keep a store open that is shut down.
    machine: Weak<Machine>,
    store_dir: PathBuf,
    log_dir: PathBuf,
    last: Mutex<Reading>,
}

impl Room {
    /// With a first look at the disks.
    pub(crate) fn new(config: &Config, machine: &Arc<Machine>) -> Self {
        let (store_dir, log_dir) = (config.dir.join("store"), config.dir.join("log"));
        // The space of a disk that cannot be queried is unknown; the reading logs that.
        let capacity = |dir: &PathBuf| io::file::space_of(dir).map_or(u64::MAX, |space| space.capacity);
        let room = Self {
            limits: Limits::new(config, capacity(&store_dir).min(capacity(&log_dir))),
            machine: Arc::downgrade(machine),
            store_dir,
            log_dir,
            last: Mutex::new(Reading { level: Level::Ample, free_len: u64::MAX }),
        };
        room.look();
        room
    }

    pub(crate) fn reading(&self) -> Reading {
        *self.last()
    }

    fn last(&self) -> MutexGuard<'_, Reading> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        match self.free() {
            Ok(free_len) => self.note(free_len),
            // The level is kept; a failing disk ends this server by its writes.
            Err(error) => tracing::warn!(%error, "free space of the metadata server's disks unknown"),
        }
    }

    fn free(&self) -> std::io::Result<u64> {
        let available = |dir: &PathBuf| io::file::space_of(dir).map(|space| space.available);
        let device = |dir: &PathBuf| std::fs::metadata(dir).map(|found| found.dev());
        let reusable = match self.machine.upgrade().map(|machine| machine.store().reusable_len()) {
            Some(reusable) => reusable.map_err(std::io::Error::other)?,
            None => 0,
        };
        let free_len = with_reusable(available(&self.store_dir)?, reusable);
        if device(&self.store_dir)? == device(&self.log_dir)? {
            return Ok(free_len);
        }
        Ok(free_len.min(available(&self.log_dir)?))
    }

    /// So many bytes are free.
    pub(crate) fn note(&self, free_len: u64) {
        let Limits { warn, reserve } = self.limits;
        let mut last = self.last();
        let level = self.limits.level(last.level, free_len);
        let before = std::mem::replace(&mut *last, Reading { level, free_len }).level;
        drop(last);
        match level {
            _ if level == before => {}
            Level::Ample => tracing::info!(free_len, "free space sufficient again"),
            Level::Scarce => {
                tracing::warn!(free_len, warn, reserve, "free space low: below the reserve, changes are refused")
            }
            Level::Exhausted => tracing::error!(
                free_len,
                reserve,
                "free space down to the reserve: changes that take more are refused; delete files, or free the disks"
            ),
        }
    }

    /// Refuses a client's change that would take space while none is left.
    pub(crate) fn admit(&self, op: &Op) -> Result<(), NoRoom> {
        if op.takes_room() { self.admit_growth() } else { Ok(()) }
    }

    /// As [`Room::admit`], of something whose change comes later.
    pub(crate) fn admit_growth(&self) -> Result<(), NoRoom> {
        let Reading { level, free_len } = self.reading();
        if level < Level::Exhausted {
            return Ok(());
        }
        let reserve = self.limits.reserve;
        assert!(
            free_len < reserve.saturating_add(reserve / BACK_PART),
            "changes are refused at {free_len} free bytes, and {reserve} are the reserve"
        );
        Err(NoRoom { free_len, reserve })
    }

    /// Looks again and again.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            io::time::sleep(LOOK_EACH).await;
            let room = Arc::clone(&self);
            io::task::blocking(move || room.look()).await;
        }
    }
}

/// A change that takes space was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{free_len} bytes of disk space are left, and {reserve} are kept in reserve")]
pub(crate) struct NoRoom {
    pub(crate) free_len: u64,
    pub(crate) reserve: u64,
}

/// Free bytes of a disk, with those inside the store's file.
fn with_reusable(available: u64, reusable: u64) -> u64 {
    let free_len = available.saturating_add(reusable.min(available.saturating_mul(REUSED_TIMES_MAX)));
    assert!(free_len >= available, "space inside the store's file takes none of the disk's");
    free_len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings and the levels after each.
    fn check(readings: &[(u64, Level)]) {
        let limits = Limits { warn: 800, reserve: 80 };
        let mut level = Level::Ample;
        for (free, wanted) in readings {
            level = limits.level(level, *free);
            assert_eq!(level, *wanted, "{free} of {readings:?}");
        }
    }

    #[test]
    fn a_small_disk_is_not_all_reserve() {
        let limits = |warn: Option<u64>, reserve: Option<u64>, capacity: u64| {
            let mut config = Config::new(PathBuf::new(), ([127, 0, 0, 1], 0).into());
            (config.free_warn_len, config.free_reserve_len) = (warn, reserve);
            let Limits { warn, reserve } = Limits::new(&config, capacity);
            (warn, reserve)
        };
        assert_eq!(limits(None, None, 1 << 40), (2 << 30, 512 << 20));
        assert_eq!(limits(None, None, 200_000_000), (20_000_000, 5_000_000));
        assert_eq!(limits(Some(7), Some(5), 1 << 40), (7, 5));
        assert_eq!(limits(None, Some(30_000_000), 200_000_000), (30_000_000, 30_000_000), "never below the reserve");
    }

    #[test]
    fn room_inside_the_file_counts_as_long_as_the_disk_has_some() {
        assert_eq!(with_reusable(70, 0), 70);
        assert_eq!(with_reusable(70, 100), 170);
        assert_eq!(with_reusable(20, 1 << 40), 80);
        assert_eq!(with_reusable(0, 1 << 40), 0);
        assert_eq!(with_reusable(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn levels_come_at_their_limits_and_go_an_eighth_above() {
        use Level::{Ample, Exhausted, Scarce};
        check(&[(800, Ample), (799, Scarce), (899, Scarce), (900, Ample)]);
        check(&[(799, Scarce), (80, Scarce), (79, Exhausted), (89, Exhausted), (90, Scarce), (80, Scarce)]);
        check(&[(0, Exhausted), (10_000, Ample)]);
        check(&[(500, Scarce), (850, Scarce), (79, Exhausted), (850, Scarce), (1000, Ample)]);
    }
}
