//! What somebody wants to know of a layout: names and counts are small, pieces are not.

use crate::tables::{Column, Layout};

/// Which columns are wanted with their pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    All,
    /// Table and column, by their numbers. What is not there is passed over.
    Columns(Vec<(u32, u32)>),
    /// Those that have a piece at one of these bytes of the file: who reads there reads them.
    At(Vec<u64>),
}

impl Layout {
    /// The same, with the pieces of wanted columns alone. All columns stay, with their numbers.
    pub fn with_pieces_of(mut self, wanted: &Wanted) -> Self {
        let wanted = wanted.sorted();
        for (table, number) in self.tables.iter_mut().zip(0..) {
            for (column, at) in table.columns.iter_mut().zip(0..) {
                if !wanted.has((number, at), column) {
                    column.pieces = Vec::new();
                }
            }
        }
        self
    }
}

impl Wanted {
    /// As [`Self::has`] needs it.
    fn sorted(&self) -> Self {
        let mut sorted = self.clone();
        match &mut sorted {
            Self::All => {}
            Self::Columns(columns) => columns.sort_unstable(),
            Self::At(offsets) => offsets.sort_unstable(),
        }
        sorted
    }

    /// Whether the column of this number is among them.
    fn has(&self, number: (u32, u32), column: &Column) -> bool {
        match self {
            Self::All => true,
            Self::Columns(columns) => columns.binary_search(&number).is_ok(),
            Self::At(offsets) => column.pieces.iter().any(|piece| {
                let next = offsets.partition_point(|offset| *offset < piece.offset);
                offsets.get(next).is_some_and(|offset| offset - piece.offset < piece.len.into())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Piece, Table};

    /// Two tables of two columns; each column has pieces of ten bytes at its number and each hundred bytes behind.
    fn layout() -> Layout {
        let column = |number: u64| {
            let piece = |row: u64| Piece { first: row, offset: 100 * row + 10 * number, len: 10 };
            Column { name: number.to_string(), pieces: (0..3).map(piece).collect() }
        };
        let table =
            |first: u64| Table { columns: vec![column(first), column(first + 1)], entries: 3, ..Table::default() };
        Layout { tables: vec![table(0), table(2)] }
    }

    fn kept(wanted: &Wanted) -> Vec<String> {
        let some = layout().with_pieces_of(wanted);
        let names = |layout: &Layout| -> Vec<String> {
            layout.tables.iter().flat_map(|table| table.columns.iter().map(|column| column.name.clone())).collect()
        };
        assert_eq!(names(&some), names(&layout()), "numbers mean the same");
        let columns = some.tables.iter().flat_map(|table| &table.columns);
        columns.filter(|column| column.pieces.len() == 3).map(|column| column.name.clone()).collect()
    }

    #[test]
    fn only_wanted_columns_have_pieces() {
        assert_eq!(kept(&Wanted::All), ["0", "1", "2", "3"]);
        assert_eq!(kept(&Wanted::Columns(vec![(1, 0), (0, 1), (7, 0), (0, 9)])), ["1", "2"]);
        assert_eq!(kept(&Wanted::Columns(Vec::new())), [""; 0]);
        assert_eq!(kept(&Wanted::At(vec![239, 100])), ["0", "3"]);
        assert_eq!(kept(&Wanted::At(vec![40, 99, 240, u64::MAX])), [""; 0], "between pieces, and behind all");
    }
}
