//! The head of a ROOT file, and the directories in it. Big-endian.
//!
//! ```text
//! ┌ "root" ┬ version ─ i32 ┬ begin ─ i32 ┬ end, free ─ 4 or 8 each ┬ 3 × i32 … ┬ name_len ─ i32 ┬ u8, i32 ┐
//! ├ seek of the streamers ─ 4 or 8 ┬ their len ─ i32 ┬ …         a version from 1,000,000 on has places of 8 bytes
//! └ at begin + name_len: the first directory
//! ```

use super::cursor::Cursor;
use super::key::LONG;
use crate::error::{LayoutError, Result};
use crate::want::Want;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) directory: Want,
    pub(crate) streamers: Want,
}

/// What is read of a directory, at most.
const DIRECTORY_LEN: u64 = 42;
const LONG_FILE: u32 = 1_000_000;

pub(crate) fn head(bytes: &[u8]) -> Result<Head> {
    let mut cursor = Cursor::new(bytes, 0);
    cursor.take(4)?;
    let is_long = cursor.u32()? >= LONG_FILE;
    let begin = cursor.count()?;
    let end = cursor.place(is_long)?;
    cursor.place(is_long)?;
    cursor.take(8)?;
    let offset = begin + cursor.count()?;
    cursor.take(5)?;
    let streamers = Want { offset: cursor.place(is_long)?, len: cursor.count()? };
    // One that was written to its end has keys behind its directory.
    let len = DIRECTORY_LEN.min(end.saturating_sub(offset));
    Ok(Head { directory: Want { offset, len }, streamers })
}

/// Where the keys of a directory are.
pub(crate) fn directory(bytes: &[u8]) -> Result<Want> {
    let mut cursor = Cursor::new(bytes, 0);
    let is_long = cursor.u16()? > LONG;
    cursor.take(8)?;
    let len = cursor.count()?;
    cursor.take(4)?;
    cursor.place(is_long)?;
    cursor.place(is_long)?;
    let offset = cursor.place(is_long)?;
    if len == 0 || offset == 0 {
        return Err(LayoutError::Unknown("a directory was never written: its writer did not close the file"));
    }
    Ok(Want { offset, len })
}
