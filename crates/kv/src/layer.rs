//! Changes in memory: what is above the disk, and not on it yet.

use crate::row::Row;
use crate::tree::{Range, Tree};
use std::ops::Bound;
use types::rows::Table;

/// LMDB's longest key.
pub(crate) const FULL_KEY_LEN_MAX: usize = 511;

/// Rows by full key (table, then key). A copy costs nothing and stands still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    rows: Tree,
    row_count: usize,
    /// Bytes of keys and values, and what holding them takes on top.
    len: usize,
}

/// A row's full key: the table's number, then the key within it.
pub(crate) fn full_key(table: Table, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(table.0);
    full.extend_from_slice(key);
    full
}

impl Layer {
    pub(crate) fn get(&self, full: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(full).map(Row::value)
    }

    pub(crate) fn set(&mut self, full: &[u8], value: Option<&[u8]>) {
        self.put(Row::new(full, value));
    }

    fn put(&mut self, row: Row) {
        self.len += row.len();
        match self.rows.put(row) {
            Some(old) => self.len -= old.len(),
            None => self.row_count += 1,
        }
    }

    /// Takes over all rows of `above`, which win.
    pub(crate) fn absorb(&mut self, above: &Self) {
        if self.is_empty() {
            *self = above.clone();
        } else {
            above.rows.range((Bound::Unbounded, Bound::Unbounded), false).for_each(|row| self.put(row.clone()));
        }
    }

    pub(crate) fn range(
        &self,
        range: Range<'_>,
        descending: bool,
    ) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + use<'_> {
        self.rows.range(range, descending).map(|row| (row.full(), row.value()))
    }

    /// All rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.range((Bound::Unbounded, Bound::Unbounded), false)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::ROW_LEN;

    #[test]
    fn its_length_follows_what_it_holds() {
        let mut layer = Layer::default();
        layer.set(b"key", Some(&[7; 100]));
        assert_eq!(layer.len(), 103 + ROW_LEN);
        layer.set(b"key", None);
        assert_eq!((layer.len(), layer.get(b"key")), (3 + ROW_LEN, Some(None)));
        let mut above = Layer::default();
        above.set(b"key", Some(b""));
        above.set(b"other", Some(b"1"));
        layer.absorb(&above);
        assert_eq!(layer.row_count(), 2);
        assert_eq!((layer.len(), layer.get(b"key")), (3 + 6 + 2 * ROW_LEN, Some(Some(&b""[..]))));
    }
}
