//! A set of changes that takes effect as a whole, or, when dropped, not at all.

use crate::change_guard::Held;
use crate::layer::{FULL_KEY_LEN_MAX, Layer, full_key};
use crate::store::Store;
use crate::view::View;
use std::fmt;
use std::ops::Bound;
use std::sync::MutexGuard;
use types::rows::{Row, Rows, RowsError, RowsMut, Table, Visit};

/// Longest key of a row: LMDB's, less the table's number. Whoever makes keys of what strangers send must bound it.
pub const KEY_LEN_MAX: usize = FULL_KEY_LEN_MAX - 1;

/// Reads see its own writes. One at a time in the whole store; views and flushes go on while it lives.
pub struct Change<'s> {
    store: &'s Store,
    view: View<'s>,
    staged: Layer,
    alone: MutexGuard<'s, ()>,
    _held: Held,
}

impl Store {
    /// Begins a change. Waits for the change under way and, if too much is in memory, for a flush.
    pub fn change(&self) -> Change<'_> {
        let alone = self.begin_change();
        let held = Held::take(self.identity());
        Change { store: self, view: self.view(), staged: Layer::default(), alone, _held: held }
    }
}

impl Change<'_> {
    /// What it changes so far, ascending; `None` in place of a value: the row is deleted.
    pub fn staged(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.staged.iter().map(|(full, value)| (Table(full[0]), &full[1..], value))
    }

    /// What [`View::commits`] is once this is visible.
    pub fn number(&self) -> u64 {
        self.view.commits() + 1
    }

    /// Makes it visible to every view from now on. Durable with the next flush.
    pub fn commit(self) {
        let Self { store, view, staged, alone, _held } = self;
        drop(view); // what it saw need not be kept beside what comes now
        store.commit(staged);
        drop(alone);
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Change")
    }
}

impl Rows for Change<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.view.below_staged(Some(&self.staged)).get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        self.view.below_staged(Some(&self.staged)).scan(table, from, visit)
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.view.below_staged(Some(&self.staged)).last_at_most(table, key)
    }
}

impl RowsMut for Change<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        check(table, key);
        self.staged.set(&full_key(table, key), Some(&value));
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        check(table, key);
        self.staged.set(&full_key(table, key), None);
    }
}

fn check(table: Table, key: &[u8]) {
    assert!(table.0 != 0, "table 0 is the store's own");
    assert!(key.len() <= KEY_LEN_MAX, "a key of {} bytes in {table:?}; callers bound what keys are made of", key.len());
}
