//! A backup on a disk: all rows of one moment of the log.
//!
//! ```text
//! 0            8            12               16
//! ┌────────────┬────────────┬────────────────┬──────────────┐
//! │ "LEVADABK" │ version u32│ header_len u32 │ header, JSON │
//! ├────────────┴┬─────────┬─┴───────────┬────┴────┬─────┬───┴───┬────────────────┬─────────┐
//! │ piece_len u32│ piece  │ piece_len   │ piece   │  …  │ 0 u32 │ piece_count u64│ sum u32 │
//! └─────────────┴─────────┴─────────────┴─────────┴─────┴───────┴────────────────┴─────────┘
//! ```
//!
//! Numbers are big-endian. A piece is a chunk as `kv` draws it, with a sum of its own; `sum` is the CRC-32C of all that
//! is before it. Promise: a file has its last name only after it was written, synced and read back ([`verify`]).

use kv::PieceCheck;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use types::ChecksumKind;

const MAGIC: [u8; 8] = *b"LEVADABK";
const VERSION: u32 = 1;
/// It has a few names and numbers.
const HEADER_LEN_MAX: u32 = 64 << 10;
/// As long as `kv` takes them.
const PIECE_LEN_MAX: u32 = 64 << 20;
/// All names are in it, and the keys of tokens.
const FILE_MODE: u32 = 0o600;

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The store, as datanodes know it.
    pub pool: String,
    pub made_ms: u64,
    /// Of the last entry of the log that is in it.
    pub entry: u64,
    /// The level of what is written in it.
    pub level: u8,
    /// Of the program that made it.
    pub version: String,
}

/// What was found in a whole backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub header: Header,
    pub row_count: u64,
    pub len: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{op} {path}: {source}")]
    Io { op: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path} is no whole backup: {reason}; take another one")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} was written by a newer program ({version}): restore it with that one")]
    Newer { path: PathBuf, version: String },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] kv::KvError),
    #[error(transparent)]
    Rows(#[from] types::rows::RowsError),
}

/// A backup that is being written. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    sum: u32,
    piece_count: u64,
    is_done: bool,
}

impl Writer {
    /// `path` must not be there.
    pub fn create(path: &Path, header: &Header) -> Result<Self, BackupError> {
        let mut partial = path.as_os_str().to_owned();
        // Of this process: what others left there, or put there, is not written to.
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let fault = |op, source| BackupError::Io { op, path: path.to_owned(), source };
        if path.try_exists().map_err(|source| fault("looking for", source))? {
            return Err(BackupError::Refused(format!("{} is there: a backup replaces nothing", path.display())));
        }
        let mut options = File::options();
        let opened = options.create_new(true).write(true).mode(FILE_MODE).open(&partial);
        let file = BufWriter::new(opened.map_err(|source| fault("making", source))?);
        let mut writer = Self { path: path.to_owned(), partial, file, sum: 0, piece_count: 0, is_done: false };
        let header = serde_json::to_vec(header).map_err(|error| BackupError::Refused(error.to_string()))?;
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_be_bytes())?;
        writer.put(&(header.len() as u32).to_be_bytes())?;
        writer.put(&header)?;
        Ok(writer)
    }

    /// The next piece, as it came.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), BackupError> {
        let len = u32::try_from(piece.len()).ok().filter(|len| (1..=PIECE_LEN_MAX).contains(len));
        let len = len.ok_or_else(|| BackupError::Refused(format!("a piece of {} bytes came", piece.len())))?;
        self.piece_count += 1;
        self.put(&len.to_be_bytes())?;
        self.put(piece)
    }

    /// All pieces came: syncs the file, reads it back, and gives it its name.
    pub fn finish(mut self) -> Result<Verified, BackupError> {
        let count = self.piece_count;
        self.put(&0_u32.to_be_bytes())?;
        self.put(&count.to_be_bytes())?;
        let sum = self.sum;
        self.put(&sum.to_be_bytes())?;
        let synced = self.file.flush().and_then(|()| io::file::sync_all(self.file.get_ref()));
        synced.map_err(|source| self.fault("writing", source))?;
        let verified = verify(&self.partial)?;
        self.name().map_err(|source| self.fault("naming", source))?;
        self.is_done = true;
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir).and_then(|dir| io::file::sync_all(&dir)).map_err(|source| self.fault("naming", source))?;
        Ok(verified)
    }

    /// What has that name by now is not replaced.
    fn name(&self) -> std::io::Result<()> {
        match std::fs::hard_link(&self.partial, &self.path) {
            Ok(()) => std::fs::remove_file(&self.partial),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
            // A file system without links.
            Err(_) => std::fs::rename(&self.partial, &self.path),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.sum = extended(self.sum, bytes);
        self.file.write_all(bytes).map_err(|source| self.fault("writing", source))
    }

    fn fault(&self, op: &'static str, source: std::io::Error) -> BackupError {
        BackupError::Io { op, path: self.path.clone(), source }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_done {
            let _there_may_be_none = std::fs::remove_file(&self.partial);
        }
    }
}

fn extended(sum: u32, bytes: &[u8]) -> u32 {
    ChecksumKind::Crc32c.append(sum, ChecksumKind::Crc32c.of(bytes), bytes.len() as u64)
}

/// A backup that is being read.
struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    sum: u32,
    len: u64,
}

impl Reader {
    fn take(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = vec![0; len];
        let read = self.file.read_exact(&mut bytes);
        read.map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => BackupError::Io { op: "reading", path: self.path.clone(), source },
        })?;
        self.sum = extended(self.sum, &bytes);
        self.len += len as u64;
        Ok(bytes)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], BackupError> {
        let bytes = self.take(LEN)?;
        bytes.try_into().map_err(|_| self.damaged("it ends too early"))
    }

    fn damaged(&self, reason: impl ToString) -> BackupError {
        BackupError::Damaged { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// Reads a whole backup, and every sum in it.
pub fn verify(path: &Path) -> Result<Verified, BackupError> {
    each_piece(path, |_| Ok(()))
}

/// As [`verify`]; `visit` gets each piece, when its own sum was right. Whether the file is whole is known at the end.
pub(super) fn each_piece(
    path: &Path,
    mut visit: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Verified, BackupError> {
    let opened = File::open(path).map_err(|source| BackupError::Io { op: "opening", path: path.to_owned(), source })?;
    let mut reader = Reader { path: path.to_owned(), file: BufReader::new(opened), sum: 0, len: 0 };
    if reader.array::<8>()? != MAGIC {
        return Err(reader.damaged("it does not begin as one"));
    }
    let version = u32::from_be_bytes(reader.array()?);
    if version != VERSION {
        return Err(BackupError::Newer { path: path.to_owned(), version: format!("form {version}") });
    }
    let header_len = u32::from_be_bytes(reader.array()?);
    if header_len > HEADER_LEN_MAX {
        return Err(reader.damaged("its header is too long"));
    }
    let header = reader.take(header_len as usize)?;
    let header: Header = serde_json::from_slice(&header).map_err(|error| reader.damaged(error))?;
    let (mut check, mut piece_count) = (PieceCheck::default(), 0_u64);
    loop {
        let len = u32::from_be_bytes(reader.array()?);
        if len == 0 {
            break;
        }
        if len > PIECE_LEN_MAX {
            return Err(reader.damaged("a piece is too long"));
        }
        let piece = reader.take(len as usize)?;
        check.take(&piece).map_err(|error| reader.damaged(error))?;
        visit(&piece)?;
        piece_count += 1;
    }
    if u64::from_be_bytes(reader.array()?) != piece_count {
        return Err(reader.damaged("pieces are missing"));
    }
    let sum = reader.sum;
    if u32::from_be_bytes(reader.array()?) != sum {
        return Err(reader.damaged("its sum is another one"));
    }
    Ok(Verified { header, row_count: check.row_count(), len: reader.len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::rows::{RowsMut, Table};

    fn header() -> Header {
        Header { pool: "BP-1".into(), made_ms: 7, entry: 9, level: 1, version: "0".into() }
    }

    /// Every single byte that is lost or changed is found out.
    #[test]
    fn a_damaged_backup_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = kv::Store::open(&dir.path().join("store"), kv::Options::default()).unwrap();
        let mut change = store.change();
        for key in 0..20_u8 {
            change.put(Table(1), &[key], vec![key; 10]);
        }
        change.commit();
        store.flush().unwrap();
        let path = dir.path().join("backup");
        let mut writer = Writer::create(&path, &header()).unwrap();
        let mut export = store.export().unwrap();
        while let Some(piece) = export.chunk(100).unwrap() {
            writer.piece(&piece).unwrap();
        }
        let verified = writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((verified.header, verified.row_count, verified.len), (header(), 20, bytes.len() as u64));
        assert!(Writer::create(&path, &header()).is_err(), "it replaces nothing");

        // Nor what came while it was written, nor what somebody put where it is written.
        let late = dir.path().join("late");
        let writer = Writer::create(&late, &header()).unwrap();
        assert!(Writer::create(&late, &header()).is_err(), "another one is writing there");
        std::fs::write(&late, "mine").unwrap();
        assert!(writer.finish().is_err());
        assert_eq!(std::fs::read(&late).unwrap(), b"mine");

        let damaged = dir.path().join("damaged");
        for at in 0..bytes.len() {
            std::fs::write(&damaged, &bytes[..at]).unwrap();
            assert!(verify(&damaged).is_err(), "it ends at {at}");
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&damaged, &bytes).unwrap();
            assert!(verify(&damaged).is_err(), "byte {at} is another one");
        }
    }
}
