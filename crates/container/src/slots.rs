//! Slots: where an open replica lies as long as it is short, so that most of them never get files of their own.
//!
//! ```text
//! open/slot-<number>                                         used again and again
//! 0         64                                4096
//! ┌─────────┬─────────────────────────────────┬──────────────────┐
//! │ header  │ 4 B for each chunk, big-endian  │ data             │    data: at most what a pack takes
//! └─────────┴─────────────────────────────────┴──────────────────┘
//! header: as in a checksum file, its `kept` telling how many bytes there are and the checksum of their partial last chunk, and
//! in 56..60 a CRC-32C of the checksums of these bytes; zeros in a slot that is free
//! ```
//!
//! Most small blocks of HDFS's writers come, are put into a pack and are gone within milliseconds.

use crate::header::{SumsHeader, sums_place};
use crate::options::Options;
use crate::replica::Identity;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the data begin: behind the checksums of so many chunks that small replicas have, and with whole pages.
pub(crate) const DATA_OFFSET: u64 = 4096;
/// Bytes of a replica that a slot takes, whatever the pack takes: a start holds one in memory.
pub(crate) const DATA_LEN_MAX: u64 = 512 << 10;

/// Slots that are kept though nobody needs them: they take space of the disk.
const FREE_COUNT_MAX: usize = 16;
/// How the names of slots begin; a number follows.
pub(crate) const PREFIX: &str = "slot-";

/// The slots of a volume.
#[derive(Debug)]
pub(crate) struct Slots {
    dir: PathBuf,
    data_len_max: u64,
    count_max: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    places: Vec<Place>,
    /// There are so many, free or not.
    count: usize,
    /// The number of the next that is made.
    next: u64,
}

#[derive(Clone, Debug)]
struct Place {
    number: u64,
    file: Arc<File>,
}

/// One slot, for as long as somebody writes or reads there.
#[derive(Debug)]
pub(crate) struct Slot {
    pub file: Arc<File>,
    number: u64,
    cleared: AtomicBool,
    slots: Arc<Slots>,
}

impl Slots {
    pub(crate) fn new(dir: PathBuf, options: &Options) -> Self {
        let data_len_max = options.pack_len_max.min(DATA_LEN_MAX);
        Self { dir, data_len_max, count_max: options.slot_count_max, free: Mutex::default() }
    }

    /// A slot for a replica that is empty yet. `None`: none is free, or it would not fit.
    pub(crate) fn take(self: &Arc<Self>, identity: Identity) -> std::io::Result<Option<Slot>> {
        let sums_len = identity.checksum.sums_len(self.data_len_max);
        // Without checksums nobody could say what of a slot is whole.
        if sums_len == 0 || sums_place(0) + sums_len > DATA_OFFSET {
            return Ok(None);
        }
        let slot =
            |Place { number, file }| Slot { file, number, cleared: AtomicBool::new(false), slots: Arc::clone(self) };
        let number = {
            let mut free = self.lock();
            if let Some(place) = free.places.pop() {
                return Ok(Some(slot(place)));
            }
            if free.count >= self.count_max {
                return Ok(None);
            }
            free.count += 1;
            free.next += 1;
            free.next - 1
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.path(number));
        let file = file.inspect_err(|_| self.lock().count -= 1)?;
        Ok(Some(slot(Place { number, file: Arc::new(file) })))
    }

    /// The slot of this number holds what a start could not take from it: no new one takes its name.
    pub(crate) fn keep(&self, number: u64) {
        let mut free = self.lock();
        free.next = free.next.max(number.saturating_add(1));
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{number}"))
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(crate) fn takes(&self, len: u64) -> bool {
        len <= self.slots.data_len_max
    }

    /// Nobody will look for the replica here any more. Those who read it go on.
    pub(crate) fn clear(&self) -> std::io::Result<()> {
        self.file.write_all_at(&[0; SumsHeader::LEN], 0)?;
        self.cleared.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // One that was not cleared holds what the next start will look for.
        if !self.cleared.load(Ordering::Acquire) {
            return;
        }
        let mut free = self.slots.lock();
        if free.places.len() < FREE_COUNT_MAX {
            free.places.push(Place { number: self.number, file: Arc::clone(&self.file) });
            return;
        }
        free.count -= 1;
        drop(free);
        let _the_next_start_removes_it = std::fs::remove_file(self.slots.path(self.number));
    }
}
