//! Changes in memory: what is above the disk, and not on it yet.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use types::rows::Table;

/// LMDB's longest key.
pub(crate) const FULL_KEY_LEN_MAX: usize = 511;

/// Rows by full key (table, then key).
#[derive(Debug, Default)]
pub(crate) struct Layer {
    rows: BTreeSet<Row>,
    /// Bytes of keys and values, and what holding them takes on top.
    len: usize,
}

/// A row, or the word that it is gone, in one allocation: a second of work is hundreds of thousands of these.
///
/// ```text
/// bytes  [table u8][key][value]      key_len counts the table too
/// ```
struct Row {
    bytes: Box<[u8]>,
    key_len: u16,
    /// False hides the row below.
    live: bool,
}

/// What a row costs beside its bytes: its place in a B-tree whose nodes are two thirds full, and the allocator's own.
/// Measured by `examples/memory.rs`: 200 bytes of key and value take 248 with glibc's allocator.
const ROW_LEN: usize = 56;

impl Row {
    fn new(full: &[u8], value: Option<&[u8]>) -> Self {
        let rest = value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(full.len() + rest.len());
        bytes.extend_from_slice(full);
        bytes.extend_from_slice(rest);
        // `Change::put` refuses longer keys.
        let key_len = u16::try_from(full.len()).expect("a key is bounded");
        Self { bytes: bytes.into_boxed_slice(), key_len, live: value.is_some() }
    }

    fn full(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_len)]
    }

    fn value(&self) -> Option<&[u8]> {
        self.live.then(|| &self.bytes[usize::from(self.key_len)..])
    }

    fn len(&self) -> usize {
        self.bytes.len() + ROW_LEN
    }
}

impl Borrow<[u8]> for Row {
    fn borrow(&self) -> &[u8] {
        self.full()
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        self.full().cmp(other.full())
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.full() == other.full()
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("full", &self.full()).field("live", &self.live).finish_non_exhaustive()
    }
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
        self.replace(Row::new(full, value));
    }

    fn replace(&mut self, row: Row) {
        self.len += row.len();
        if let Some(old) = self.rows.replace(row) {
            self.len -= old.len();
        }
    }

    /// Takes over all rows of `above`, which win.
    pub(crate) fn absorb(&mut self, above: Self) {
        if self.is_empty() {
            *self = above;
        } else {
            above.rows.into_iter().for_each(|row| self.replace(row));
        }
    }

    pub(crate) fn range<'a>(
        &'a self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.rows.range::<[u8], _>(range).map(|row| (row.full(), row.value()))
    }

    /// All rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.rows.iter().map(|row| (row.full(), row.value()))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        layer.absorb(above);
        assert_eq!((layer.len(), layer.get(b"key")), (3 + 6 + 2 * ROW_LEN, Some(Some(&b""[..]))));
    }
}
