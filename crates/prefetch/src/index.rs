//! A layout by offsets: which pieces of which columns a read touches. Made once for a file, and shared by all its
//! readers.
//!
//! Promise: whatever the layout says, a lookup names only pieces that lie in the file and whose columns are in order;
//! it takes time by their number, and no more than [`TOUCHED_MAX`] are named.

use crate::span::Span;
use layout::{Column, Layout, Piece};
use std::ops::Range;
use std::sync::Arc;

/// A read that touches more is one of the file rather than of columns. Many times what one read of ours merges.
pub(crate) const TOUCHED_MAX: usize = 4096;

/// 16 bytes for each piece: 6 MB for the talk's 364,800.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    column: ColumnId,
    piece: u32,
}

/// A column of any table of the file, counted through all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// A piece that a read touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) table: u32,
    pub(crate) column: ColumnId,
    pub(crate) piece: u32,
}

#[derive(Debug)]
pub struct Index {
    layout: Arc<Layout>,
    file_len: u64,
    /// Table, and column in it.
    columns: Vec<(u32, u32)>,
    /// The first column of each table.
    firsts: Vec<u32>,
    places: Vec<Place>,
}

impl Index {
    /// Columns whose entries are not in order, and pieces that are empty or not in the file, are left out.
    pub fn new(layout: Arc<Layout>, file_len: u64) -> Self {
        let mut columns = Vec::new();
        let mut firsts = Vec::new();
        let mut places = Vec::new();
        for (table, content) in layout.tables.iter().enumerate() {
            firsts.push(columns.len() as u32);
            for (number, column) in content.columns.iter().enumerate() {
                let id = ColumnId(columns.len() as u32);
                columns.push((table as u32, number as u32));
                if !column.pieces.is_sorted_by_key(|piece| piece.first) || u32::try_from(column.pieces.len()).is_err() {
                    continue;
                }
                let pieces = column.pieces.iter().enumerate().filter(|(_, piece)| is_in(piece, file_len));
                places.extend(pieces.map(|(at, piece)| Place { offset: piece.offset, column: id, piece: at as u32 }));
            }
        }
        places.sort_unstable_by_key(|place| (place.offset, place.column, place.piece));
        Self { layout, file_len, columns, firsts, places }
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Bytes of memory that it takes, with its layout.
    pub fn memory_len(&self) -> u64 {
        let columns_len = self.columns.capacity() * size_of::<(u32, u32)>() + self.firsts.capacity() * size_of::<u32>();
        self.layout.memory_len() + (columns_len + self.places.capacity() * size_of::<Place>()) as u64
    }

    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    pub(crate) fn id(&self, table: u32, column: u32) -> Option<ColumnId> {
        let first = *self.firsts.get(table as usize)?;
        let id = ColumnId(first.checked_add(column)?);
        self.columns.get(id.0 as usize).filter(|(of, _)| *of == table)?;
        Some(id)
    }

    /// Its table, and its place in that.
    pub fn place(&self, id: ColumnId) -> Option<(u32, u32)> {
        self.columns.get(id.0 as usize).copied()
    }

    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        let (table, column) = self.place(id)?;
        self.layout.tables.get(table as usize)?.columns.get(column as usize)
    }

    pub(crate) fn name(&self, id: ColumnId) -> Arc<str> {
        self.column(id).map_or("", |column| &column.name).into()
    }

    pub(crate) fn piece_count(&self, id: ColumnId) -> u32 {
        self.column(id).and_then(|column| u32::try_from(column.pieces.len()).ok()).unwrap_or(0)
    }

    pub(crate) fn piece(&self, id: ColumnId, number: u32) -> Option<&Piece> {
        self.column(id)?.pieces.get(number as usize)
    }

    /// Its bytes; empty if it is not all in the file.
    pub(crate) fn span(&self, id: ColumnId, number: u32) -> Span {
        let piece = self.piece(id, number).filter(|piece| is_in(piece, self.file_len));
        piece.map_or(Span::default(), |piece| Span::new(piece.offset, piece.len.into()))
    }

    /// Its entries.
    pub(crate) fn entries(&self, id: ColumnId, number: u32) -> Range<u64> {
        let Some((table, _)) = self.place(id) else { return 0..0 };
        let total = self.layout.tables.get(table as usize).map_or(0, |table| table.entries);
        let first = self.piece(id, number).map_or(total, |piece| piece.first);
        let next = number.checked_add(1).and_then(|next| self.piece(id, next)).map_or(total, |piece| piece.first);
        first..next.max(first)
    }

    /// The piece of a column that holds an entry.
    pub(crate) fn piece_of(&self, id: ColumnId, entry: u64) -> u32 {
        let pieces = self.column(id).map_or(&[][..], |column| &column.pieces);
        (pieces.partition_point(|piece| piece.first <= entry) as u32).saturating_sub(1)
    }

    /// The pieces that `span` touches, in the order of their offsets. `None`: too many for a read of columns.
    pub(crate) fn touched(&self, span: Span) -> Option<Vec<Touched>> {
        // Pieces of one file hardly overlap, so what begins before the span is looked for one step back.
        let start = self.places.partition_point(|place| place.offset <= span.offset).saturating_sub(1);
        let behind = self.places.get(start..).unwrap_or(&[]);
        let mut touched = Vec::new();
        for place in behind.iter().take_while(|place| place.offset < span.end()) {
            let piece = self.span(place.column, place.piece);
            let Some((table, _)) = self.place(place.column).filter(|_| piece.end() > span.offset) else { continue };
            if touched.len() == TOUCHED_MAX {
                return None;
            }
            touched.push(Touched { table, column: place.column, piece: place.piece });
        }
        Some(touched)
    }
}

fn is_in(piece: &Piece, file_len: u64) -> bool {
    piece.len > 0 && piece.offset.checked_add(piece.len.into()).is_some_and(|end| end <= file_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Table;

    fn column(name: &str, pieces: &[(u64, u64, u32)]) -> Column {
        let piece = |&(first, offset, len): &(u64, u64, u32)| Piece { first, offset, len };
        Column { name: name.into(), pieces: pieces.iter().map(piece).collect() }
    }

    fn index(columns: Vec<Column>) -> Index {
        let tables = vec![Table { name: String::new(), entries: 30, columns }];
        Index::new(Arc::new(Layout { tables }), 1000)
    }

    #[test]
    fn a_read_finds_the_pieces_it_touches() {
        let index = index(vec![column("a", &[(0, 100, 10), (10, 120, 10)]), column("b", &[(0, 110, 10)])]);
        let touched = |start, end| {
            let touched = index.touched(Span::between(start, end)).unwrap();
            touched.iter().map(|touched| (touched.column.0, touched.piece)).collect::<Vec<_>>()
        };
        assert_eq!(touched(105, 125), [(0, 0), (1, 0), (0, 1)]);
        assert_eq!(touched(110, 120), [(1, 0)]);
        assert_eq!(touched(0, 100), []);
        assert_eq!(touched(130, 900), []);
        assert_eq!(index.entries(ColumnId(0), 1), 10..30);
        assert_eq!((index.piece_of(ColumnId(0), 9), index.piece_of(ColumnId(0), 99)), (0, 1));
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let index = index(vec![
            column("backward", &[(10, 100, 10), (0, 120, 10)]),
            column("outside", &[(0, 995, 10), (1, u64::MAX, 10), (2, 300, 0), (3, 400, 1)]),
        ]);
        assert_eq!(index.touched(Span::between(0, 1000)).unwrap().len(), 1);
        assert!(index.span(ColumnId(1), 0).is_empty() && index.span(ColumnId(9), 9).is_empty());
        assert_eq!(index.id(0, 2), None);
    }
}
