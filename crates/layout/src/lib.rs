//! Where the columns of a file lie: which bytes hold which entries of which column. Pure.
//!
//! A reader far away who knows this asks for "columns rawtr and E33, entries 0 to 10,000" in one packet, instead of
//! moving headers of megabytes and lists of ranges.

mod arrow;
mod decoders;
mod error;
pub mod fuzz;
mod inquiry;
mod limits;
mod orc;
mod parquet;
mod record;
mod room;
mod root;
mod want;
mod wanted;
mod window;

pub use error::LayoutError;
pub use inquiry::{
    Answer, Format, HEAD_LEN, Inquiry, begin, begin_at_end, begin_in_room, begin_within, of_bytes, of_bytes_within,
};
pub use limits::{Limits, What};
pub use record::{RecordError, decode, decode_in_room, encode};
pub use room::{Boundless, Room};
pub use want::Want;
pub use wanted::Wanted;

use limits::Budget;
use std::ops::Range;

/// Which formats are read, and how far: raised with every parser that reads more or otherwise, so that what was said of
/// a file before does not count any more.
pub const READS: u8 = 2;

/// What a file holds, as far as its reader cares where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The tables of the file: one for Parquet and ORC, any number of trees for ROOT.
    pub tables: Vec<Table>,
}

impl Layout {
    /// Bytes of memory that it takes.
    pub fn memory_len(&self) -> u64 {
        let column_len = |column: &Column| column.name.capacity() + column.pieces.capacity() * size_of::<Piece>();
        let table_len = |table: &Table| {
            let columns = table.columns.iter().map(column_len).sum::<usize>();
            table.name.capacity() + table.columns.capacity() * size_of::<Column>() + columns
        };
        (self.tables.capacity() * size_of::<Table>() + self.tables.iter().map(table_len).sum::<usize>()) as u64
    }
}

/// Rows of the same columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Empty where the format knows but one.
    pub name: String,
    /// How many entries (rows) it has.
    pub entries: u64,
    pub columns: Vec<Column>,
}

/// Values of one kind, one or some for each entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its path, with dots between the parts.
    pub name: String,
    /// In the order of their entries, which is not always that of the file.
    pub pieces: Vec<Piece>,
}

/// The smallest bytes that can be decoded alone: a basket, a page, a column chunk.
///
/// One that holds no entry, since the next begins with the same, is needed for all that follow it up to the next such
/// one: a dictionary, or a part of what is longer than 4 GiB. See [`Column::pieces_of`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The first entry it holds; the next piece's is its end.
    pub first: u64,
    /// Bytes from the start of the file.
    pub offset: u64,
    pub len: u32,
}

impl Piece {
    /// Adds what may be of any length: too long for one, it is cut, and its last part holds the entries.
    pub(crate) fn add(pieces: &mut Vec<Self>, first: u64, span: Want, budget: &mut Budget) -> Result<(), LayoutError> {
        let Want { mut offset, len: mut left } = span;
        // A file of holes is as long as its writer likes: each cut costs memory.
        budget.pieces(left.div_ceil(u32::MAX.into()).max(1))?;
        while let Some(more) = left.checked_sub(u64::from(u32::MAX)).filter(|more| *more > 0) {
            pieces.push(Self { first, offset, len: u32::MAX });
            (offset, left) = (offset.saturating_add(u32::MAX.into()), more);
        }
        pieces.push(Self { first, offset, len: left as u32 });
        Ok(())
    }
}

impl Column {
    /// What has to be read for these entries: the pieces that hold some of them, and before those the nearest
    /// dictionary.
    pub fn pieces_of(&self, entries: Range<u64>) -> impl Iterator<Item = &Piece> {
        let start = self.pieces.partition_point(|piece| piece.first <= entries.start).saturating_sub(1);
        let end = self.pieces.partition_point(|piece| piece.first < entries.end).max(start);
        let held = if entries.is_empty() { &[][..] } else { self.pieces.get(start..end).unwrap_or_default() };
        let before = if held.is_empty() { &[][..] } else { self.pieces.get(..=start).unwrap_or_default() };
        // Each beside the one behind it: those that begin together are the dictionary and what it is for.
        let is_empty = |at: usize| matches!(before.get(at..at + 2), Some([one, next]) if one.first == next.first);
        let last = (0..before.len()).rev().find(|at| is_empty(*at));
        let run = last.map(|last| (0..last).rev().take_while(|at| is_empty(*at)).last().unwrap_or(last)..last + 1);
        self.pieces.get(run.unwrap_or_default()).unwrap_or_default().iter().chain(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(pieces: &[(u64, u64)]) -> Column {
        let piece = |&(first, offset): &(u64, u64)| Piece { first, offset, len: 10 };
        Column { name: "x".into(), pieces: pieces.iter().map(piece).collect() }
    }

    fn offsets(column: &Column, entries: Range<u64>) -> Vec<u64> {
        column.pieces_of(entries).map(|piece| piece.offset).collect()
    }

    #[test]
    fn entries_come_with_the_dictionary_they_need() {
        // Two row groups, each with a dictionary.
        let paged = column(&[(0, 4), (0, 14), (50, 24), (100, 64), (100, 74), (150, 84)]);
        assert_eq!(offsets(&paged, 0..10), [4, 14]);
        assert_eq!(offsets(&paged, 60..70), [4, 24]);
        assert_eq!(offsets(&paged, 60..120), [4, 24, 64, 74]);
        assert_eq!(offsets(&paged, 150..1000), [64, 84]);
        assert_eq!(offsets(&paged, 70..70), [0; 0]);
        let plain = column(&[(0, 4), (50, 14), (100, 24)]);
        assert_eq!(offsets(&plain, 49..51), [4, 14]);
        assert_eq!(offsets(&column(&[]), 0..10), [0; 0]);
    }

    #[test]
    fn what_is_long_is_cut_and_comes_together() {
        let mut long = column(&[]);
        let mut budget = Budget::new(Limits { piece_count_max: 5, ..Limits::default() });
        Piece::add(&mut long.pieces, 0, Want { offset: 4, len: 3 * u64::from(u32::MAX) }, &mut budget).unwrap();
        Piece::add(&mut long.pieces, 7, Want { offset: 1 << 40, len: 5 }, &mut budget).unwrap();
        assert_eq!(long.pieces.len(), 4);
        assert_eq!(offsets(&long, 3..4), [4, 4 + 0xffff_ffff, 4 + 2 * 0xffff_ffff]);
        // What belongs to the piece before costs bytes and no mistake.
        assert_eq!(offsets(&long, 7..8).last(), Some(&(1 << 40)));
        // One is left, and this takes two.
        let more = Piece::add(&mut long.pieces, 8, Want { offset: 0, len: 1 << 32 }, &mut budget);
        assert!(matches!(more, Err(LayoutError::TooLarge { what: What::Pieces, .. })));
    }
}
