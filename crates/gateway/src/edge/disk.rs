//! The segments on the disk: read by many, written by one thread, dropped when it says so.
//!
//! Nothing is synced: what a power failure takes does not fit its checksums, and is fetched again. Names that are no
//! segment's are left alone. All of this may wait for the disk.

use edge::record::{self, Owner};
use edge::{Content, DiskPart, Head, Place, SEGMENT_BEGIN, SEGMENT_NUMBER_MAX};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of a list, which is read at once when the edge starts: four million records.
const HEADS_LEN_MAX: u64 = 256 << 20;
/// Up to so many bytes are read with what lies before them, by one call. A guess.
const WHOLE_LEN_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    /// No other edge works on this directory, until this is dropped.
    lock: Mutex<Option<File>>,
    bytes: Mutex<HashMap<u64, Arc<File>>>,
    open: Mutex<Option<Open>>,
}

/// The segment that is written to.
#[derive(Debug)]
struct Open {
    number: u64,
    bytes: Arc<File>,
    heads: File,
    heads_len: u64,
}

/// The bytes of a segment whose name is gone. Its room on the disk is free once the last of these is.
#[derive(Clone, Debug)]
pub(super) struct Gone(Arc<File>);

impl Gone {
    /// All of an extent, verified. `None`: it is not what was written.
    pub(super) fn read(&self, content: Content, part: &DiskPart) -> Option<Vec<u8>> {
        read_record(&self.0, content, part, part.extent_len).ok()?
    }
}

/// A segment of an earlier process.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) number: u64,
    pub(super) bytes_len: u64,
    pub(super) heads: Vec<Head>,
}

impl Disk {
    /// Takes the directory, which is made if it is not there, and what is in it, the newest first.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<Found>)> {
        // What is kept is what somebody may read, not everybody.
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        io::file::must_be_own(dir)?;
        let lock = io::file::lock(&dir.join("lock")).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::other("another edge uses this directory"),
            _ => error,
        })?;
        let disk =
            Self { dir: dir.to_owned(), lock: Mutex::new(Some(lock)), bytes: Mutex::default(), open: Mutex::default() };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir)? {
            numbers.extend(entry?.file_name().to_str().and_then(number_of));
        }
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        numbers.dedup();
        let mut found = Vec::with_capacity(numbers.len());
        for number in numbers {
            match disk.find(number) {
                Ok(segment) => found.push(segment),
                Err(error) => {
                    tracing::info!(number, %error, "a segment of the cache cannot be used, and is removed");
                    disk.remove(number);
                }
            }
        }
        Ok((disk, found))
    }

    fn find(&self, number: u64) -> Result<Found> {
        let bytes = File::open(self.path(number, BYTES))?;
        let list = File::open(self.path(number, HEADS))?;
        let mut heads = Vec::new();
        list.take(HEADS_LEN_MAX).read_to_end(&mut heads)?;
        let heads = Head::list(&heads).filter(|heads| !heads.is_empty());
        let heads = heads.ok_or_else(|| Error::other("its list names nothing"))?;
        let bytes_len = bytes.metadata()?.len();
        self.bytes().insert(number, Arc::new(bytes));
        Ok(Found { number, bytes_len, heads })
    }

    /// Writes a record to the place that was reserved for it.
    pub(super) fn write(&self, content: Content, offset: u64, data: &[u8], place: Place) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_none_or(|open| open.number != place.segment) {
            *open = Some(self.create(place.segment)?);
        }
        let Some(open) = open.as_mut() else { return Ok(()) };
        let mut record_bytes = Vec::with_capacity(record::len_of(data.len() as u32) as usize);
        record::encode(Owner { content, offset }, data, &mut record_bytes);
        open.bytes.write_all_at(&record_bytes, place.at)?;
        // Behind the bytes: a list names nothing that was not written.
        let head = Head { content, offset, at: place.at, len: data.len() as u32 };
        open.heads.write_all_at(&head.encode(), open.heads_len)?;
        open.heads_len += Head::LEN as u64;
        Ok(())
    }

    fn create(&self, number: u64) -> Result<Open> {
        let make = |ending| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true).mode(0o600);
            options.open(self.path(number, ending))
        };
        let (bytes, heads) = (Arc::new(make(BYTES)?), make(HEADS)?);
        heads.write_all_at(&SEGMENT_BEGIN, 0)?;
        self.bytes().insert(number, Arc::clone(&bytes));
        Ok(Open { number, bytes, heads, heads_len: SEGMENT_BEGIN.len() as u64 })
    }

    /// So many bytes of a record, verified. `None`: they are not what was written, or are gone.
    pub(super) fn read(&self, content: Content, part: &DiskPart, len: u32) -> Option<Vec<u8>> {
        let file = self.bytes().get(&part.place.segment).cloned()?;
        read_record(&file, content, part, len)
            .inspect_err(|error| tracing::debug!(%error, "a piece cannot be read"))
            .ok()?
    }

    /// A segment goes; what of it is worth it can be read as long as this is there.
    pub(super) fn evict(&self, segment: u64) -> Option<Gone> {
        let file = self.bytes().get(&segment).cloned();
        self.remove(segment);
        file.map(Gone)
    }

    /// Nothing is written any more: another edge may use the directory.
    pub(super) fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn remove(&self, number: u64) {
        // What is written to files without a name is lost.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(open.take_if(|open| open.number == number));
        drop(open);
        self.bytes().remove(&number);
        for ending in [BYTES, HEADS] {
            let removed = fs::remove_file(self.path(number, ending));
            if let Err(error) =
                removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
            {
                tracing::warn!(number, %error, "a segment of the cache cannot be removed");
            }
        }
    }

    fn path(&self, number: u64, ending: &str) -> PathBuf {
        self.dir.join(format!("{number:016x}.{ending}"))
    }

    /// Nothing is left half done while it is held.
    fn bytes(&self) -> MutexGuard<'_, HashMap<u64, Arc<File>>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const BYTES: &str = "bytes";
const HEADS: &str = "heads";

fn number_of(name: &str) -> Option<u64> {
    let (number, ending) = name.split_once('.')?;
    let is_ours = [BYTES, HEADS].contains(&ending) && number.len() == 16;
    u64::from_str_radix(number, 16).ok().filter(|number| is_ours && *number < SEGMENT_NUMBER_MAX)
}

fn read_record(file: &File, content: Content, part: &DiskPart, len: u32) -> Result<Option<Vec<u8>>> {
    let reads = record::reads(part.extent_len, part.skip, len);
    let at = |from: u64| part.place.at + from;
    let span = |range: &std::ops::Range<u64>| (range.end - range.start) as usize;
    let mut sums = vec![0; span(&reads.sums)];
    let mut data;
    if reads.data.end <= WHOLE_LEN_MAX {
        // The sums lie before the bytes: one call brings both.
        let mut both = vec![0; (reads.data.end - reads.sums.start) as usize];
        file.read_exact_at(&mut both, at(reads.sums.start))?;
        sums.copy_from_slice(&both[..span(&reads.sums)]);
        data = both.split_off((reads.data.start - reads.sums.start) as usize);
    } else {
        data = vec![0; span(&reads.data)];
        file.read_exact_at(&mut sums, at(reads.sums.start))?;
        file.read_exact_at(&mut data, at(reads.data.start))?;
    }
    if !record::is_whole(Owner { content, offset: part.begin }, &data, &mut sums) {
        return Ok(None);
    }
    data.truncate(reads.part.end);
    data.drain(..reads.part.start);
    Ok(Some(data))
}
