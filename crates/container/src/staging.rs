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
//! Most small blocks of HDFS's writers come, are put into a pack and are gone within milliseconds. What a slot holds
//! survives the end of the process like any file, and nobody was promised more: before bytes are synced the replica is
//! *spread*, which is to say that it gets files of its own; likewise before it outgrows the slot, and before a recovery
//! or a returning writer changes it.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Kept, Stage, SumsHeader, read_header, sums_place};
use crate::open::{Disk, Files, OpenReplica};
use crate::options::Options;
use crate::replica::Identity;
use crate::volume::Inner;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{ChecksumSpec, ContainerId};

/// Where the data begin: behind the checksums of so many chunks that small replicas have, and with whole pages.
pub(crate) const DATA_OFFSET: u64 = 4096;
/// Bytes of a replica that a slot takes, whatever the pack takes: a start holds one in memory.
const DATA_LEN_MAX: u64 = 512 << 10;

/// Slots that are kept though nobody needs them: they take space of the disk.
const FREE_COUNT_MAX: usize = 16;
const PREFIX: &str = "slot-";

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

impl Inner {
    /// Gives a replica files of its own, if it lies in a slot. The caller holds its disk.
    pub(crate) fn spread(&self, replica: &OpenReplica, _disk: &mut Disk) -> Result<()> {
        let Some(slot) = replica.files().slot else { return Ok(()) };
        let state = replica.state();
        let files =
            self.fill_files(&slot.file, state.identity, Kept { len: state.len, tail: state.tail.unwrap_or(0) })?;
        replica.set_files(files);
        slot.clear().map_err(replica.io(DiskOp::Write("over a slot")))
    }

    /// The files of an open replica, with the bytes that a slot has of it. "Copying" until they are whole: a start that
    /// finds them half done takes the slot.
    fn fill_files(&self, slot: &File, identity: Identity, have: Kept) -> Result<Files> {
        let io = |op| move |source| ReplicaError::Io { op, container: identity.shelf(), source };
        let mut data = vec![0; have.len as usize];
        slot.read_exact_at(&mut data, DATA_OFFSET).map_err(io(DiskOp::Read("a slot")))?;
        let sums = read_sums(slot, identity.checksum, have).map_err(io(DiskOp::Read("a slot")))?;
        let files = self.create_pair(identity, Stage::Copying)?;
        let header = SumsHeader { stage: Stage::Open, identity, kept: Kept::default() };
        files.data.write_all_at(&data, 0).map_err(io(DiskOp::Write("data")))?;
        files.sums.write_all_at(&sums, sums_place(0)).map_err(io(DiskOp::Write("checksums")))?;
        files.sums.write_all_at(&header.encode(), 0).map_err(io(DiskOp::Write("the header")))?;
        Ok(files)
    }

    /// Gives files to what a crash left in slots, and removes the slots. What becomes of the files is decided as of
    /// any.
    pub(crate) fn take_in_slots(&self) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container: ContainerId(0), source };
        let dir = std::fs::read_dir(self.layout.open()).map_err(io(DiskOp::List("open replicas")))?;
        for entry in dir {
            let entry = entry.map_err(io(DiskOp::List("open replicas")))?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.set_aside(&path, &"it is a directory");
                continue;
            }
            match self.take_in_slot(&path) {
                Err(error) => {
                    tracing::error!(path = %path.display(), "an open replica stays in its slot until the next start");
                    self.pass_over(error)?;
                    let mut free = self.slots.lock();
                    free.next = free.next.max(number.parse().map_or(0, |number: u64| number.saturating_add(1)));
                }
                Ok(()) => {
                    if let Err(error) = std::fs::remove_file(&path) {
                        tracing::warn!(path = %path.display(), %error, "empty slot kept");
                    }
                }
            }
        }
        Ok(())
    }

    fn take_in_slot(&self, path: &std::path::Path) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container: ContainerId(0), source };
        let slot = File::open(path).map_err(io(DiskOp::Open("a slot")))?;
        let Some(header) = read_header(&slot).map_err(io(DiskOp::Read("a slot")))? else { return Ok(()) };
        let SumsHeader { identity, kept, .. } = header;
        if header.stage != Stage::Open || kept.len > DATA_LEN_MAX {
            return Ok(());
        }
        let mut bytes = [0; SumsHeader::LEN];
        slot.read_exact_at(&mut bytes, 0).map_err(io(DiskOp::Read("a slot")))?;
        let sums = read_sums(&slot, identity.checksum, kept).map_err(io(DiskOp::Read("a slot")))?;
        if !SumsHeader::speaks_of(&bytes, &sums) {
            tracing::warn!(block = %identity.block, "a slot holds what was there before: its header alone outlived the loss of power");
            return Ok(());
        }
        // Files that are whole came later. Where nobody can say whether they are, they are not written over.
        let files = match File::open(self.layout.open_pair(identity.block).sums) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            sums => sums.and_then(|sums| read_header(&sums)).map_err(io(DiskOp::Read("a header")))?,
        };
        let is_later =
            |files: SumsHeader| files.stage != Stage::Copying && files.identity.generation >= identity.generation;
        if files.is_some_and(is_later) {
            return Ok(());
        }
        self.fill_files(&slot, identity, kept).map(drop)
    }
}

/// The checksums of the bytes of which a slot's header speaks.
fn read_sums(slot: &File, spec: ChecksumSpec, have: Kept) -> std::io::Result<Vec<u8>> {
    let mut sums = vec![0; spec.sums_len(have.len) as usize];
    slot.read_exact_at(&mut sums, sums_place(0))?;
    if !have.len.is_multiple_of(spec.chunk_len.into())
        && let Some(last) = sums.last_chunk_mut::<{ ChecksumSpec::SUM_LEN }>()
    {
        // The one in its place may cover bytes whose writing was cut short.
        *last = have.tail.to_be_bytes();
    }
    Ok(sums)
}
