//! The files of the log: entries one after the other, each with its checksum; a torn end is found and cut.
//!
//! ```text
//! <index of the first entry, 16 hex digits>.log
//! ┌─────────┬─────────────────┬───────────────────┬─────────┬───
//! │ len u32 │ CRC-32C     u32 │ entry (entry.rs)  │ len u32 │ …      little is assumed of the disk: a record counts
//! └─────────┴─────────────────┴───────────────────┴─────────┴───     only if its checksum and its index are right
//! ```
//! Big-endian. The checksum covers the length and the entry.

use crate::Entry;
use crate::entry::decode_entry;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use types::ChecksumKind;

const HEADER_LEN: usize = 8;
/// Longest entry read back. Commands are bounded far below it; a longer length is damage.
const ENTRY_LEN_MAX: usize = 256 << 20;

/// One file. Entries are `first..`, and `ends[n]` is where the n-th of them ends.
#[derive(Debug)]
pub(crate) struct Segment {
    pub first: u64,
    ends: Vec<u64>,
    file: File,
    path: PathBuf,
}

/// A record for `entry`, an entry as bytes.
pub(crate) fn frame(entry: &[u8], into: &mut Vec<u8>) {
    let len = (entry.len() as u32).to_be_bytes();
    into.extend_from_slice(&len);
    into.extend_from_slice(&sum(&len, entry).to_be_bytes());
    into.extend_from_slice(entry);
}

fn sum(len: &[u8; 4], entry: &[u8]) -> u32 {
    ChecksumKind::Crc32c.of(entry) ^ u32::from_be_bytes(*len).rotate_left(7)
}

impl Segment {
    pub(crate) fn create(dir: &Path, first: u64) -> io::Result<Self> {
        let path = dir.join(format!("{first:016x}.log"));
        let file = File::options().create_new(true).read(true).write(true).open(&path)?;
        File::open(dir)?.sync_all()?;
        Ok(Self { first, ends: Vec::new(), file, path })
    }

    /// Opens a file of the log and reads its entries. What follows the last whole record was never acknowledged, and is cut.
    pub(crate) fn open(path: &Path, first: u64, entries: &mut Vec<Entry>) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = fs::read(path)?;
        let mut segment = Self { first, ends: Vec::new(), file, path: path.to_owned() };
        let mut rest = bytes.as_slice();
        while let Some((entry, after)) = Self::split(rest) {
            let entry = decode_entry(entry).map_err(|error| at(path, &error))?;
            if entry.log_id.index() != segment.end() {
                break;
            }
            rest = after;
            segment.ends.push((bytes.len() - rest.len()) as u64);
            entries.push(entry);
        }
        if !rest.is_empty() {
            let kept = bytes.len() - rest.len();
            tracing::warn!(path = %path.display(), kept, cut = rest.len(), "the end of the Raft log was torn; cutting it");
            segment.file.set_len(kept as u64)?;
            segment.file.sync_all()?;
        }
        Ok(segment)
    }

    /// The first record of `bytes`, and what follows it.
    fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (have, rest) = rest.split_first_chunk::<4>()?;
        let entry_len = u32::from_be_bytes(*len) as usize;
        let entry = rest.get(..entry_len).filter(|_| (1..=ENTRY_LEN_MAX).contains(&entry_len))?;
        (u32::from_be_bytes(*have) == sum(len, entry)).then(|| (entry, &rest[entry_len..]))
    }

    /// Index after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Appends framed records; `lens` are the lengths of the entries in them. Not synced.
    pub(crate) fn append(&mut self, records: &[u8], lens: impl Iterator<Item = usize>) -> io::Result<()> {
        let mut end = self.len();
        self.file.write_all_at(records, end)?;
        for len in lens {
            end += (HEADER_LEN + len) as u64;
            self.ends.push(end);
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Drops the entries from `index` on.
    pub(crate) fn cut(&mut self, index: u64) -> io::Result<()> {
        self.ends.truncate(index.saturating_sub(self.first) as usize);
        self.file.set_len(self.len())?;
        self.file.sync_all()
    }

    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
