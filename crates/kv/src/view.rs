//! The rows of one moment, for reading.

use crate::disk::Disk;
use crate::error::KvError;
use crate::layer::{FULL_KEY_LEN_MAX, Layer, full_key};
use crate::merge::{Merge, Run};
use crate::store::{Layers, Store};
use crate::tree::Range;
use heed::{RoTxn, WithoutTls};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use types::rows::{Row, Rows, RowsError, Table, Visit};

/// What was committed before it was made, and nothing after. It has no lock, so nobody waits for it; but what was
/// changed and flushed since takes memory and room in the file until it ends, so it should not live for minutes.
pub struct View<'s> {
    store: &'s Store,
    below: Below<'s>,
    layers: Arc<Layers>,
}

/// The disk as of one moment.
///
/// Its transaction begins while the layers stand still, so it shows what was on disk when they were taken, or, if a
/// flush just ended, what the frozen layer says anyway.
struct Below<'s> {
    disk: &'s Disk,
    read: Result<RoTxn<'s, WithoutTls>, KvError>,
}

impl<'s> Below<'s> {
    fn read(&self) -> Result<&RoTxn<'s, WithoutTls>, KvError> {
        self.read.as_ref().map_err(|error| self.disk.unreadable(error))
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        self.store.release(&mut self.layers);
    }
}

impl Store {
    /// The rows as of now.
    pub fn view(&self) -> View<'_> {
        self.at_this_moment(|layers| {
            let below = Below { disk: self.disk(), read: self.disk().read() };
            View { store: self, below, layers: Arc::clone(layers) }
        })
    }
}

impl<'s> View<'s> {
    /// Changes that were made since the store was opened, as of this view.
    pub fn commits(&self) -> u64 {
        self.layers.commits
    }

    fn stack(&self) -> Stack<'_, 's> {
        self.below_staged(None)
    }

    /// All there is, with the rows of a change that is not committed on top.
    pub(crate) fn below_staged<'a>(&'a self, staged: Option<&'a Layer>) -> Stack<'a, 's> {
        Stack { layers: [staged, Some(&self.layers.active), self.layers.frozen.as_ref()], below: &self.below }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl Rows for View<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.stack().get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        self.stack().scan(table, from, visit)
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.stack().last_at_most(table, key)
    }
}

/// Layers above the disk, topmost first: the first that knows a key decides.
pub(crate) struct Stack<'a, 's> {
    layers: [Option<&'a Layer>; 3],
    below: &'a Below<'s>,
}

impl<'a> Stack<'a, '_> {
    fn layers(&self) -> impl Iterator<Item = &'a Layer> {
        self.layers.into_iter().flatten().filter(|layer| !layer.is_empty())
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        let full = full_key(table, key);
        if full.len() > FULL_KEY_LEN_MAX {
            return Ok(None); // never stored, and LMDB would take the question for an error
        }
        if let Some(decided) = self.layers().find_map(|layer| layer.get(&full)) {
            return Ok(decided.map(<[u8]>::to_vec));
        }
        let stored = self.below.read().and_then(|read| self.below.disk.get(read, &full));
        stored.map(|value| value.map(<[u8]>::to_vec)).map_err(|error| error.into_rows("reading a row"))
    }

    pub(crate) fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let from = match from {
            Bound::Unbounded => Bound::Included(full_key(table, &[])),
            bound => storable_from(bound.map(|key| full_key(table, key))),
        };
        // Bounded at the table's end, or a scan would first skip all that is deleted behind it.
        let after = table.0.checked_add(1).map(|after| [after]);
        let to = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(&after[..]));
        let mut run = || -> Result<(), KvError> {
            for row in Merge::ascending(self.runs((from.as_ref().map(Vec::as_slice), to), false)?) {
                let (full, value) = row?;
                if visit(&full[1..], value).is_break() {
                    break;
                }
            }
            Ok(())
        };
        run().map_err(|error| error.into_rows("reading rows"))
    }

    pub(crate) fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        let mut full = full_key(table, key);
        full.truncate(FULL_KEY_LEN_MAX); // what is stored and at most a longer key is at most its beginning
        let range = (Bound::Included(&[table.0][..]), Bound::Included(full.as_slice()));
        let last = self.runs(range, true).and_then(|runs| Merge::descending(runs).next().transpose());
        let last = last.map_err(|error| error.into_rows("reading a row"))?;
        Ok(last.map(|(full, value)| (full[1..].to_vec(), value.to_vec())))
    }

    /// The layers' rows and the disk's, topmost first.
    fn runs(&self, range: Range<'_>, descending: bool) -> Result<Vec<Run<'a>>, KvError> {
        let mut runs: Vec<Run<'a>> = Vec::with_capacity(self.layers.len() + 1);
        for layer in self.layers() {
            runs.push(Box::new(layer.range(range, descending).map(Ok)));
        }
        let (disk, read) = (self.below.disk, self.below.read()?);
        runs.push(if descending {
            Box::new(disk.descend(read, range)?.map(|row| row.map(|(full, value)| (full, Some(value)))))
        } else {
            Box::new(disk.range(read, range)?.map(|row| row.map(|(full, value)| (full, Some(value)))))
        });
        Ok(runs)
    }
}

/// The same lower bound for keys that can be stored: what lies behind a longer key lies behind its beginning.
fn storable_from(from: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match from {
        Bound::Included(mut full) | Bound::Excluded(mut full) if full.len() > FULL_KEY_LEN_MAX => {
            full.truncate(FULL_KEY_LEN_MAX);
            Bound::Excluded(full)
        }
        bound => bound,
    }
}
