//! Rows in memory that can be taken back: a refused request leaves nothing behind.

use std::collections::BTreeSet;
use std::ops::Bound;
use types::RowsDigest;
use types::rows::{MemoryRows, Row, Rows, RowsError, RowsMut, Table, Visit};

#[derive(Default)]
pub(super) struct Journaled {
    rows: MemoryRows,
    undo: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
}

impl Journaled {
    pub(super) fn commit(&mut self) {
        self.undo.clear();
    }

    /// The digest after what was changed since the last commit.
    pub(super) fn digest_after(&self, before: RowsDigest) -> RowsDigest {
        let changed: BTreeSet<(Table, &[u8])> = self.undo.iter().map(|(table, key, _)| (*table, &key[..])).collect();
        let value = |(table, key)| self.rows.get(table, key).expect("memory can be read");
        let values: Vec<_> = changed.iter().map(|at| value(*at)).collect();
        before.after(changed.iter().zip(&values).map(|((table, key), value)| (*table, *key, value.as_deref())))
    }

    pub(super) fn roll_back(&mut self) {
        while let Some((table, key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.rows.put(table, &key, value),
                None => self.rows.delete(table, &key),
            }
        }
    }

    pub(super) fn rows(&self) -> &MemoryRows {
        &self.rows
    }

    fn remember(&mut self, table: Table, key: &[u8]) {
        let before = self.rows.get(table, key).expect("memory can be read");
        self.undo.push((table, key.to_vec(), before));
    }
}

impl Rows for Journaled {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.rows.get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        self.rows.scan(table, from, visit)
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.rows.last_at_most(table, key)
    }
}

impl RowsMut for Journaled {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.remember(table, key);
        self.rows.put(table, key, value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.remember(table, key);
        self.rows.delete(table, key);
    }
}

impl From<MemoryRows> for Journaled {
    fn from(rows: MemoryRows) -> Self {
        Self { rows, undo: Vec::new() }
    }
}
