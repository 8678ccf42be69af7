//! Rows that come from another store: kept in a file until all are there, and then put in the place of this store's.
//!
//! ```text
//! ┌──────────────┬───────┬──────────────┬───────┬───┐
//! │ chunk_len u32│ chunk │ chunk_len u32│ chunk │ … │      chunks as the export draws them
//! └──────────────┴───────┴──────────────┴───────┴───┘
//! ```
//!
//! Promise: after a crash the store has all of the old rows or all of the new ones: they are replaced in one
//! transaction.

use crate::chunk::rows_of;
use crate::error::KvError;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Longest chunk that is taken. Exports make them of about a megabyte, but a row can be longer.
const CHUNK_LEN_MAX: usize = 64 << 20;

/// Chunks of one store, one after the other: whether each is whole and follows the one before it.
#[derive(Debug, Default)]
pub struct PieceCheck {
    /// The last row so far: the next must be behind it.
    last: Vec<u8>,
    row_count: u64,
}

impl PieceCheck {
    pub fn take(&mut self, chunk: &[u8]) -> Result<(), KvError> {
        let strange = |reason: &str| KvError::Foreign { reason: reason.to_owned() };
        if chunk.len() > CHUNK_LEN_MAX {
            return Err(strange("a chunk is too long"));
        }
        let mut last = std::mem::take(&mut self.last);
        for (full, _) in rows_of(chunk).map_err(strange)? {
            if full <= last.as_slice() {
                return Err(strange("a row is out of order"));
            }
            last.clear();
            last.extend_from_slice(full);
            self.row_count += 1;
        }
        self.last = last;
        Ok(())
    }

    /// Rows so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }
}

/// Rows that came so far. Dropped, they are forgotten.
#[derive(Debug)]
pub struct Import {
    path: PathBuf,
    file: BufWriter<File>,
    check: PieceCheck,
}

impl Import {
    /// Collects in the file `path`, which is made, or emptied if an earlier process left it.
    pub fn begin(path: &Path) -> Result<Self, KvError> {
        let file = File::create(path).map_err(|source| fault("making the file for another's rows", path, source))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), check: PieceCheck::default() })
    }

    /// Takes a chunk, if it is whole and follows the one before it.
    pub fn take(&mut self, chunk: &[u8]) -> Result<(), KvError> {
        self.check.take(chunk)?;
        let len = (chunk.len() as u32).to_be_bytes();
        let written = self.file.write_all(&len).and_then(|()| self.file.write_all(chunk));
        written.map_err(|source| fault("keeping another's rows", &self.path, source))
    }

    /// Gives the chunks back, one after the other.
    pub(crate) fn read_back(
        &mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let failed = |source| fault("reading another's rows", &self.path, source);
        self.file.flush().map_err(failed)?;
        let mut file = BufReader::new(File::open(&self.path).map_err(failed)?);
        let mut chunk = Vec::new();
        loop {
            let mut len = [0; 4];
            match file.read(&mut len[..1]).map_err(failed)? {
                0 => return Ok(()),
                _ => file.read_exact(&mut len[1..]).map_err(failed)?,
            }
            let len = u32::from_be_bytes(len) as usize;
            if len > CHUNK_LEN_MAX {
                return Err(KvError::Foreign { reason: "the file of its rows was changed".into() });
            }
            chunk.resize(len, 0);
            file.read_exact(&mut chunk).map_err(failed)?;
            for (full, value) in rows_of(&chunk).map_err(|reason| KvError::Foreign { reason: reason.into() })? {
                visit(full, value)?;
            }
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // One that stays is emptied by the next.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn fault(op: &'static str, path: &Path, source: std::io::Error) -> KvError {
    KvError::Io { op, dir: path.to_owned(), source }
}
