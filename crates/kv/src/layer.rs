//! Changes in memory: what is above the disk, and not on it yet.

use std::collections::BTreeMap;
use std::ops::Bound;
use types::rows::Table;

/// Rows by full key (table, then key); `None` hides the row below.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Bytes of keys and values, and what a node of the map takes on top.
    len: usize,
}

/// What a row costs beside its bytes: two `Vec`s and its share of a B-tree node. Measured within a fifth.
const ROW_LEN: usize = 64;

/// A row's full key: the table's number, then the key within it.
pub(crate) fn full_key(table: Table, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(table.0);
    full.extend_from_slice(key);
    full
}

impl Layer {
    pub(crate) fn get(&self, full: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(full).map(Option::as_deref)
    }

    pub(crate) fn set(&mut self, full: Vec<u8>, value: Option<Vec<u8>>) {
        let cost = |key_len: usize, value: &Option<Vec<u8>>| key_len + value.as_ref().map_or(0, Vec::len) + ROW_LEN;
        let key_len = full.len();
        self.len += cost(key_len, &value);
        if let Some(old) = self.rows.insert(full, value) {
            self.len -= cost(key_len, &old);
        }
    }

    /// Takes over all rows of `above`, which win.
    pub(crate) fn absorb(&mut self, above: Self) {
        for (full, value) in above.rows {
            self.set(full, value);
        }
    }

    pub(crate) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let rows = self.rows.range::<[u8], _>((from, Bound::Unbounded));
        rows.map(|(full, value)| (full.as_slice(), value.as_deref()))
    }

    /// Rows at or below `full`, descending.
    pub(crate) fn descend<'a>(
        &'a self,
        full: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let rows = self.rows.range::<[u8], _>((Bound::Unbounded, full)).rev();
        rows.map(|(full, value)| (full.as_slice(), value.as_deref()))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
