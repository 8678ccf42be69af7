//! A key: the head of everything that a ROOT file holds. Big-endian.
//!
//! ```text
//! ┌ len ─ i32 ┬ version ─ i16 ┬ object_len ─ i32 ┬ date ─ u32 ┬ key_len ─ i16 ┬ cycle ─ i16 ┬ seek, parent ─ 4 or 8 ┐
//! ├ class ─ text ┬ name ─ text ┬ title ─ text ┬ object, compressed where it is shorter than object_len               ┤
//! └ len counts all; key_len what is before the object; a version above 1000 has places of 8 bytes                    ┘
//! ```

use super::cursor::Cursor;
use crate::error::{LayoutError, Result};
use crate::limits::name;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// All of it, where it lies.
    pub(crate) span: Want,
    pub(crate) object_len: u64,
    pub(crate) key_len: usize,
    /// Counts the versions of an object of one name.
    pub(crate) cycle: u16,
    pub(crate) class: String,
    pub(crate) name: String,
}

/// From this version on places have 8 bytes.
pub(crate) const LONG: u16 = 1000;

impl Key {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let len = cursor.count()?;
        let is_long = cursor.u16()? > LONG;
        let object_len = cursor.count()?;
        cursor.take(4)?;
        let key_len = cursor.u16()?.into();
        let cycle = cursor.u16()?;
        let offset = cursor.place(is_long)?;
        cursor.place(is_long)?;
        let class = name(cursor.text()?)?.into_owned();
        let name = name(cursor.text()?)?.into_owned();
        cursor.text()?;
        Ok(Self { span: Want { offset, len }, object_len, key_len, cycle, class, name })
    }

    /// The key at the begin of its own bytes, and what it holds, as it is stored.
    pub(crate) fn split(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let key = Self::read(&mut Cursor::new(bytes, 0))?;
        let stored = bytes.get(key.key_len..).ok_or(LayoutError::Damaged("a key is longer than what it holds"))?;
        Ok((key, stored))
    }
}
