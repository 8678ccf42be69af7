//! A set of changes that takes effect as a whole, or, when dropped, not at all.

use crate::layer::{Layer, full_key};
use crate::store::{Layers, Store};
use crate::view::{self, Below};
use std::fmt;
use std::ops::Bound;
use std::sync::RwLockWriteGuard;
use types::rows::{Rows, RowsError, RowsMut, Table, Visit};

/// LMDB's longest key, less the table's number.
pub(crate) const KEY_LEN_MAX: usize = 510;

/// Reads see its own writes. One at a time in the whole store; views wait while it lives.
pub struct Change<'s> {
    layers: RwLockWriteGuard<'s, Layers>,
    staged: Layer,
    below: Below<'s>,
}

impl<'s> Change<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        let layers = store.layers().write().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self { layers, staged: Layer::default(), below: Below::new(store.disk()) }
    }

    /// Makes it visible to every view from now on. Durable with the next flush.
    pub fn commit(mut self) {
        self.layers.active.absorb(std::mem::take(&mut self.staged));
    }

    fn topmost_first(&self) -> Vec<&Layer> {
        std::iter::once(&self.staged).chain(self.layers.topmost_first()).collect()
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Change")
    }
}

impl Rows for Change<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        view::get(&self.topmost_first(), &self.below, table, key).map_err(|error| error.into_rows("reading a row"))
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let layers = self.topmost_first();
        view::scan(&layers, &self.below, table, from, visit).map_err(|error| error.into_rows("reading rows"))
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>, RowsError> {
        let layers = self.topmost_first();
        view::last_at_most(&layers, &self.below, table, key).map_err(|error| error.into_rows("reading a row"))
    }
}

impl RowsMut for Change<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        assert!(
            key.len() <= KEY_LEN_MAX,
            "a key of {} bytes in {table:?}; callers bound what keys are made of",
            key.len()
        );
        self.staged.set(full_key(table, key), Some(value));
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.staged.set(full_key(table, key), None);
    }
}
