//! What a file may cost at most: a stranger wrote it, and chose every number in it.

use crate::error::{LayoutError, Result};
use crate::room::{Boundless, Room};
use crate::tables::{Column, Piece};
use crate::what::What;
use std::borrow::Cow;

/// The most that one file may take until its layout is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file, all questions together.
    pub asked_len_max: u64,
    /// Questions. One for each tree and directory of a ROOT file, and some for its streamers.
    pub question_count_max: u64,
    /// Bytes of one object, decompressed.
    pub object_len_max: u64,
    /// Bytes of all objects, decompressed, and steps of what else takes time: bounds it.
    pub objects_len_max: u64,
    pub piece_count_max: u64,
    /// Columns and, since a file may have many without any, tables.
    pub column_count_max: u64,
    /// Bytes of all names of columns and tables. Nested columns repeat what is above them.
    pub names_len_max: u64,
}

impl Default for Limits {
    /// Guesses, some ten times above the table of the measurements (8.8 MB of header, 364,800 pieces, 152 columns).
    fn default() -> Self {
        Self {
            asked_len_max: 128 << 20,
            question_count_max: 10_000,
            object_len_max: 96 << 20,
            objects_len_max: 256 << 20,
            piece_count_max: 4 << 20,
            column_count_max: 256 << 10,
            names_len_max: 32 << 20,
        }
    }
}

/// A list that grows to twice its length has both for a moment.
const GROWING: u64 = 3;
/// Memory is taken in so large parts.
const ROOM_LEN: u64 = 64 << 10;

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Limits,
    room: Box<dyn Room>,
    /// What was taken and is not needed yet.
    free_len: u64,
    /// The longest object so far: each takes the place of the one before.
    object_len: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::in_room(limits, Box::new(Boundless))
    }

    pub(crate) fn in_room(limits: Limits, room: Box<dyn Room>) -> Self {
        Self { left: limits, room, free_len: 0, object_len: 0 }
    }

    fn memory(&mut self, len: u64) -> Result<()> {
        if len > self.free_len {
            let more = (len - self.free_len).max(ROOM_LEN);
            if !self.room.take(more) {
                return Err(LayoutError::NoRoom);
            }
            self.free_len += more;
        }
        self.free_len -= len;
        Ok(())
    }

    /// Before so many of something are put into a list.
    pub(crate) fn list<T>(&mut self, count: u64) -> Result<()> {
        self.memory(count.saturating_mul(GROWING * size_of::<T>() as u64))
    }

    pub(crate) fn ask(&mut self, len: u64) -> Result<()> {
        spend(&mut self.left.question_count_max, 1, What::Questions)?;
        spend(&mut self.left.asked_len_max, len, What::Asked)
    }

    /// Before the memory of a decompressed object is taken.
    pub(crate) fn object(&mut self, len: u64) -> Result<()> {
        self.object_room(len)?;
        spend(&mut self.left.objects_len_max, len, What::Objects)
    }

    /// As [`Self::object`], of one that does not say how long it is: no longer than this. What comes of it is work.
    pub(crate) fn object_room(&mut self, len_max: u64) -> Result<()> {
        let max = self.left.object_len_max;
        if len_max > max {
            return Err(LayoutError::TooLarge { what: What::Object, asked: len_max, max });
        }
        let longer = len_max.saturating_sub(self.object_len);
        self.object_len += longer;
        // It is read into a list that grows.
        self.memory(longer.saturating_mul(GROWING))
    }

    /// What costs time and no memory, in steps that take about as long as a decompressed byte.
    pub(crate) fn work(&mut self, steps: u64) -> Result<()> {
        spend(&mut self.left.objects_len_max, steps, What::Objects)
    }

    pub(crate) fn pieces(&mut self, count: u64) -> Result<()> {
        spend(&mut self.left.piece_count_max, count, What::Pieces)?;
        self.list::<Piece>(count)
    }

    /// A column or a table, by its name.
    pub(crate) fn name(&mut self, name: &str) -> Result<()> {
        spend(&mut self.left.column_count_max, 1, What::Columns)?;
        spend(&mut self.left.names_len_max, name.len() as u64, What::Names)?;
        // As it is read, and as a column has it.
        self.memory(2 * name.len() as u64)?;
        self.list::<Column>(1)
    }
}

/// One part of a path. ROOT and the others have no limit; a guess, far above.
const NAME_LEN_MAX: usize = 64 << 10;

/// Before a text of megabytes, each byte of which may become three, is copied.
pub(crate) fn name(bytes: &[u8]) -> Result<Cow<'_, str>> {
    if bytes.len() > NAME_LEN_MAX {
        return Err(LayoutError::Unknown("it has names of more than 64 KiB"));
    }
    Ok(String::from_utf8_lossy(bytes))
}

fn spend(left: &mut u64, asked: u64, what: What) -> Result<()> {
    *left = left.checked_sub(asked).ok_or(LayoutError::TooLarge { what, asked, max: *left })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_end() {
        assert_eq!(name(b"E\xff"), Ok("E\u{fffd}".into()));
        assert!(name(&[b'x'; NAME_LEN_MAX]).is_ok());
        assert!(matches!(name(&[b'x'; NAME_LEN_MAX + 1]), Err(LayoutError::Unknown(_))));
    }
}
