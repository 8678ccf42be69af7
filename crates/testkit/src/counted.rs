//! Rows that count how often one is read or written.

use std::cell::Cell;
use std::ops::Bound;
use types::rows::{MemoryRows, Row, Rows, RowsError, RowsMut, Table, Visit};

#[derive(Debug, Default)]
pub struct Counted {
    rows: MemoryRows,
    touched: Cell<usize>,
}

impl Counted {
    fn touch(&self) {
        self.touched.set(self.touched.get() + 1);
    }

    /// The rows, read without being counted.
    pub fn inner(&self) -> &MemoryRows {
        &self.rows
    }

    /// Rows touched since this was asked last.
    pub fn take_touched(&self) -> usize {
        self.touched.take()
    }
}

impl Rows for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.touch();
        self.rows.get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        self.rows.scan(table, from, &mut |key, value| {
            self.touch();
            visit(key, value)
        })
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.touch();
        self.rows.last_at_most(table, key)
    }
}

impl RowsMut for Counted {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.touch();
        self.rows.put(table, key, value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.touch();
        self.rows.delete(table, key);
    }
}
