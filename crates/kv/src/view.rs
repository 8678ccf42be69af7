//! The rows of one moment, for reading.

use crate::KvError;
use crate::disk::Disk;
use crate::layer::{Layer, full_key};
use crate::merge::{Merge, Run};
use crate::store::{Layers, Store};
use heed::{RoTxn, WithoutTls};
use std::cell::OnceCell;
use std::fmt;
use std::ops::Bound;
use std::sync::RwLockReadGuard;
use types::rows::{Rows, RowsError, Table, Visit};

/// What was committed before it was made, and nothing after. It holds up commits, so keep it short, and one a thread.
pub struct View<'s> {
    layers: RwLockReadGuard<'s, Layers>,
    below: Below<'s>,
}

/// The disk as of one moment; its transaction begins with the first row that no layer decides.
pub(crate) struct Below<'s> {
    disk: &'s Disk,
    read: OnceCell<RoTxn<'s, WithoutTls>>,
}

impl<'s> Below<'s> {
    pub(crate) fn new(disk: &'s Disk) -> Self {
        Self { disk, read: OnceCell::new() }
    }

    fn read(&self) -> Result<&RoTxn<'s, WithoutTls>, KvError> {
        match self.read.get() {
            Some(read) => Ok(read),
            None => {
                let begun = self.disk.read()?;
                Ok(self.read.get_or_init(|| begun))
            }
        }
    }
}

impl<'s> View<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        let layers = store.layers().read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self { layers, below: Below::new(store.disk()) }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl Rows for View<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        get(&self.layers.topmost_first(), &self.below, table, key).map_err(|error| error.into_rows("reading a row"))
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let layers = self.layers.topmost_first();
        scan(&layers, &self.below, table, from, visit).map_err(|error| error.into_rows("reading rows"))
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>, RowsError> {
        let layers = self.layers.topmost_first();
        last_at_most(&layers, &self.below, table, key).map_err(|error| error.into_rows("reading a row"))
    }
}

pub(crate) fn get(layers: &[&Layer], below: &Below<'_>, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
    let full = full_key(table, key);
    if let Some(decided) = layers.iter().find_map(|layer| layer.get(&full)) {
        return Ok(decided.map(<[u8]>::to_vec));
    }
    Ok(below.disk.get(below.read()?, &full)?.map(<[u8]>::to_vec))
}

pub(crate) fn scan(
    layers: &[&Layer],
    below: &Below<'_>,
    table: Table,
    from: Bound<&[u8]>,
    visit: &mut Visit<'_>,
) -> Result<(), KvError> {
    let from = match from {
        Bound::Unbounded => Bound::Included(full_key(table, &[])),
        bound => bound.map(|key| full_key(table, key)),
    };
    let from = from.as_ref().map(Vec::as_slice);
    let mut runs: Vec<Run<'_>> = Vec::with_capacity(layers.len() + 1);
    for layer in layers.iter().filter(|layer| !layer.is_empty()) {
        runs.push(Box::new(layer.range(from).map(Ok)));
    }
    let disk = below.disk.range(below.read()?, from)?;
    runs.push(Box::new(disk.map(|row| row.map(|(full, value)| (full, Some(value))))));
    for row in Merge::ascending(runs) {
        let (full, value) = row?;
        if full.first() != Some(&table.0) || visit(&full[1..], value).is_break() {
            break;
        }
    }
    Ok(())
}

pub(crate) fn last_at_most(
    layers: &[&Layer],
    below: &Below<'_>,
    table: Table,
    key: &[u8],
) -> Result<Option<types::rows::Row>, KvError> {
    let full = full_key(table, key);
    let to = Bound::Included(full.as_slice());
    let mut runs: Vec<Run<'_>> = Vec::with_capacity(layers.len() + 1);
    for layer in layers.iter().filter(|layer| !layer.is_empty()) {
        runs.push(Box::new(layer.descend(to).map(Ok)));
    }
    let disk = below.disk.descend(below.read()?, to)?;
    runs.push(Box::new(disk.map(|row| row.map(|(full, value)| (full, Some(value))))));
    match Merge::descending(runs).next().transpose()? {
        Some((full, value)) if full.first() == Some(&table.0) => Ok(Some((full[1..].to_vec(), value.to_vec()))),
        _ => Ok(None),
    }
}
