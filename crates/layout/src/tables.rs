//! A layout: tables, their columns, and the pieces of these.

use std::ops::Range;

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
}
