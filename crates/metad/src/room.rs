//! Free space where this server keeps its log and its store.
//!
//! ```text
//!            below `free_warn_len`          below `free_reserve_len`
//!   Ample ─────────────────────▶ Scarce ─────────────────────────▶ Spent
//!         ◀───────────────────── warned of ◀───────────────────────  changes of clients are refused
//!            an eighth above it              an eighth above it
//! ```
//!
//! Promise: as long as space is spent, no client's change makes the rows grow; what frees, moves or finishes something is taken, as are the
//! server's own changes and Raft's. So the last bytes are left for those, and the server takes everything again when there is space.
//! Without the reserve the first write that finds no space ends the process, on all members of a group at about the same time.

use crate::config::Config;
use namespace::{NsError, Op};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks. At 500 MB/s a disk loses as much meanwhile as the usual reserve holds.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// Space that comes and goes around a limit changes nothing until it is above it by this part.
const BACK_PART: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ample,
    Scarce,
    Spent,
}

/// Bytes below which a level begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) warn: u64,
    pub(crate) reserve: u64,
}

impl Limits {
    /// The level after `free` bytes were read.
    fn level(self, before: Level, free: u64) -> Level {
        let is_below = |limit: u64, level: Level| {
            let limit = if before >= level { limit.saturating_add(limit / BACK_PART) } else { limit };
            free < limit
        };
        match () {
            () if is_below(self.reserve, Level::Spent) => Level::Spent,
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
    /// They may be on different disks.
    dirs: [PathBuf; 2],
    last: Mutex<Reading>,
}

impl Room {
    /// With a first look at the disks.
    pub(crate) fn new(config: &Config, dirs: [PathBuf; 2]) -> Self {
        let limits = Limits { warn: config.free_warn_len, reserve: config.free_reserve_len };
        let room = Self { limits, dirs, last: Mutex::new(Reading { level: Level::Ample, free_len: u64::MAX }) };
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
        let free = self.dirs.iter().map(|dir| io::file::space_of(dir).map(|space| space.available));
        match free.collect::<std::io::Result<Vec<u64>>>() {
            Ok(free) => self.note(free.into_iter().min().unwrap_or(u64::MAX)),
            // The level stays; a disk that fails ends this server by its writes.
            Err(error) => tracing::warn!(%error, "the free space of the metadata server's disks cannot be read"),
        }
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
            Level::Ample => tracing::info!(free_len, "the metadata server's disks have space again"),
            Level::Scarce => tracing::warn!(
                free_len,
                warn,
                reserve,
                "little space is free where the metadata server keeps log and store; below the reserve it refuses changes"
            ),
            Level::Spent => tracing::error!(
                free_len,
                reserve,
                "the space of the metadata server's disks is down to its reserve: changes are refused that take more; free some"
            ),
        }
    }

    /// Refuses a client's change that would take space while none is left.
    pub(crate) fn admit(&self, op: &Op) -> Result<(), NsError> {
        if op.takes_room() { self.admit_growth() } else { Ok(()) }
    }

    /// As [`Room::admit`], of something whose change comes later.
    pub(crate) fn admit_growth(&self) -> Result<(), NsError> {
        let Reading { level, free_len } = self.reading();
        if level < Level::Spent {
            return Ok(());
        }
        let reserve = self.limits.reserve;
        Err(NsError::Other(format!(
            "The metadata server has {free_len} bytes of disk space left, and keeps {reserve} in reserve (free_reserve_len): \
             until space is freed there, it takes only what deletes, renames or closes files"
        )))
    }

    /// Looks again and again.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EACH).await;
            let room = Arc::clone(&self);
            io::task::blocking(move || room.look()).await;
        }
    }
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
    fn levels_come_at_their_limits_and_go_an_eighth_above() {
        use Level::{Ample, Scarce, Spent};
        check(&[(800, Ample), (799, Scarce), (899, Scarce), (900, Ample)]);
        check(&[(799, Scarce), (80, Scarce), (79, Spent), (89, Spent), (90, Scarce), (80, Scarce)]);
        check(&[(0, Spent), (10_000, Ample)]);
        check(&[(500, Scarce), (850, Scarce), (79, Spent), (850, Scarce), (1000, Ample)]);
    }
}
