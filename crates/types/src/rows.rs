//! The rows that replicated state is made of, as pure code sees them: a few sorted tables of bytes.
//!
//! Promise: an operation reads and writes rows through these traits alone, so the same code runs over the disk,
//! over an overlay that is not synced yet, and over a map in a test ([`MemoryRows`]).

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// A sorted table; the number is its prefix on disk and is never reused (docs/on-disk.md lists all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u8);

/// The state could not be read or written: a fault of this node, never of the caller. The node must stop.
#[derive(Debug, thiserror::Error)]
#[error("{op}: {reason}")]
pub struct RowsError {
    pub op: &'static str,
    pub reason: String,
}

/// Shown each row of a scan, in ascending order of keys (unsigned bytes); `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

pub trait Rows {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError>;

    /// Visits the rows from `from` on. The visitor decides where to stop; there is no upper bound but the table's end.
    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError>;

    /// The row with the greatest key that is at most `key`.
    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError>;
}

pub trait RowsMut: Rows {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>);
    fn delete(&mut self, table: Table, key: &[u8]);
}

/// Rows in a map: for tests, simulations and small tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows(BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl MemoryRows {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All rows, for invariant checks.
    pub fn iter(&self) -> impl Iterator<Item = (Table, &[u8], &[u8])> {
        self.0.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_slice()))
    }
}

impl Rows for MemoryRows {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        Ok(self.0.get(&(table, key.to_vec())).cloned())
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let from = match from {
            Bound::Unbounded => Bound::Included((table, Vec::new())),
            bound => bound.map(|key| (table, key.to_vec())),
        };
        for ((at, key), value) in self.0.range((from, Bound::Unbounded)) {
            if *at > table || (*at == table && visit(key, value).is_break()) {
                break;
            }
        }
        Ok(())
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        let row = self.0.range((table, Vec::new())..=(table, key.to_vec())).next_back();
        Ok(row.map(|((_, key), value)| (key.clone(), value.clone())))
    }
}

impl RowsMut for MemoryRows {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.0.insert((table, key.to_vec()), value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.0.remove(&(table, key.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_stays_in_its_table() {
        let mut rows = MemoryRows::default();
        for (table, key) in [(1, "a"), (2, "a"), (2, "b"), (3, "a")] {
            rows.put(Table(table), key.as_bytes(), vec![table]);
        }
        let mut seen = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        };
        rows.scan(Table(2), Bound::Unbounded, &mut visit).unwrap();
        rows.scan(Table(2), Bound::Excluded(b"a"), &mut visit).unwrap();
        assert_eq!(seen, [b"a", b"b", b"b"]);
        assert_eq!(rows.last_at_most(Table(2), b"zz").unwrap().unwrap().0, b"b");
        assert_eq!(rows.last_at_most(Table(3), b"A").unwrap(), None);
    }
}
