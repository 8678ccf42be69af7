//! The first bytes that a reader of columns wants, as both ends of a connection find them: so no list has to travel.

use crate::tables::{Layout, Piece};

impl Layout {
    /// What holds the entries from `first` on, of all columns that have their pieces here: in the order of entries, as
    /// much as fits into `len_max` bytes and `count_max` pieces. They come as they lie in the file, each once.
    pub fn window(&self, first: u64, len_max: u64, count_max: usize) -> Vec<Piece> {
        let columns = self.tables.iter().flat_map(|table| &table.columns);
        let mut pieces: Vec<Piece> = columns.flat_map(|column| column.pieces_of(first..u64::MAX)).copied().collect();
        pieces.sort_unstable_by_key(|piece| (piece.first, piece.offset, piece.len));
        pieces.dedup();
        let mut left = len_max;
        let fits = |piece: &Piece| match left.checked_sub(piece.len.into()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let mut window: Vec<Piece> = pieces.into_iter().take(count_max).take_while(fits).collect();
        window.sort_unstable_by_key(|piece| (piece.offset, piece.len));
        window.dedup_by_key(|piece| (piece.offset, piece.len));
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Column, Table};

    fn column(pieces: &[(u64, u64)]) -> Column {
        let piece = |&(first, offset): &(u64, u64)| Piece { first, offset, len: 10 };
        Column { name: String::new(), pieces: pieces.iter().map(piece).collect() }
    }

    fn window(first: u64, len_max: u64) -> Vec<u64> {
        // The second begins with a dictionary; the third was not wanted.
        let columns = vec![column(&[(0, 30), (10, 40), (20, 0)]), column(&[(0, 50), (0, 60), (15, 70)]), column(&[])];
        let layout = Layout { tables: vec![Table { entries: 30, columns, ..Table::default() }] };
        layout.window(first, len_max, 100).iter().map(|piece| piece.offset).collect()
    }

    #[test]
    fn entries_come_first_that_are_read_first() {
        assert_eq!(window(0, 1000), [0, 30, 40, 50, 60, 70]);
        assert_eq!(window(0, 45), [30, 40, 50, 60]);
        assert_eq!(window(0, 9), [0; 0]);
        assert_eq!(window(16, 1000), [0, 40, 50, 70], "with the dictionary that they need");
        assert_eq!(window(16, 30), [40, 50, 70]);
    }
}
