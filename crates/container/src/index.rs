//! The volume's index: where each finalized replica lies, and how far each pack is known.
//!
//! ```text
//! table 64  replica    key block u64                  value version u8 (1), then postcard of [`Row`]
//! table 65  container  key container u64              value version u8 (1), then postcard of [`ContainerRow`]
//! table 66  volume     key "volume": volume id (16 B)  key "totals": postcard of [`Totals`]
//!                      key "dead", container u64       postcard of u64: bytes of its pack that were buried and not looked for yet
//! ```
//!
//! Promise: a change is visible at once and durable with the next [`Index::flush`]. What a crash takes is found again
//! in the containers that `ahead/` names, so nothing here is the only place of a fact.

use crate::replica::Identity;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::rows::{Rows, RowsError, RowsMut, Table};
use types::{BlockId, ChecksumSpec, ContainerId, FileId, Generation};

const REPLICA: Table = Table(64);
const CONTAINER: Table = Table(65);
const VOLUME: Table = Table(66);
const ROW_VERSION: u8 = 1;

/// A finalized replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct Row {
    pub generation: Generation,
    pub file: FileId,
    pub home: ContainerId,
    pub checksum: ChecksumSpec,
    pub len: u64,
    pub place: Place,
}

/// Where the bytes lie. The container here is the directory, which can differ from the home that was told later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) enum Place {
    Files { shelf: ContainerId },
    Pack { shelf: ContainerId, offset: u64 },
}

impl Place {
    pub(crate) fn shelf(self) -> ContainerId {
        match self {
            Self::Files { shelf } | Self::Pack { shelf, .. } => shelf,
        }
    }
}

impl Row {
    pub(crate) fn new(identity: Identity, len: u64, place: Place) -> Self {
        let Identity { generation, file, home, checksum, .. } = identity;
        Self { generation, file, home, checksum, len, place }
    }

    pub(crate) fn identity(&self, block: BlockId) -> Identity {
        let Self { generation, file, home, checksum, .. } = *self;
        Identity { block, generation, file, home, checksum }
    }

    /// Bytes on disk, checksums too.
    fn used(&self) -> u64 {
        self.len + self.checksum.sums_len(self.len)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct ContainerRow {
    /// All records of the pack below this offset are in the index (or dead). It never falls, though the pack is removed
    /// and begun anew: what a crash leaves of the index may be older than the pack, and must not speak of another
    /// file. So a later pack begins where the one before it ended, behind a hole.
    pub pack_known: u64,
    pub pack_live_count: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct Totals {
    pub used: u64,
    pub count: u64,
}

/// Some 500 million replicas at 130 bytes a row. A process with many disks has 2^47 bytes of addresses for all their
/// indexes, which 1 TiB each would use up with 128 disks.
const MAP_LEN: usize = 64 << 30;

#[derive(Debug)]
pub(crate) struct Index {
    store: kv::Store,
    /// Containers whose rows were removed, and on disk perhaps not yet: how far their packs were known.
    forgotten: Mutex<BTreeMap<ContainerId, u64>>,
}

impl Index {
    pub(crate) fn open(dir: &Path) -> Result<Self, kv::KvError> {
        let store = kv::Store::open(dir, kv::Options { map_len: MAP_LEN, ..kv::Options::default() })?;
        Ok(Self { store, forgotten: Mutex::default() })
    }

    fn forgotten(&self) -> MutexGuard<'_, BTreeMap<ContainerId, u64>> {
        // Changed in single steps, so a panic elsewhere does not spoil it.
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a flush would write something.
    pub(crate) fn is_dirty(&self) -> bool {
        self.store.overlay_len() > 0
    }

    fn view<R>(&self, look: impl FnOnce(&dyn Rows) -> Result<R, RowsError>) -> Result<R, RowsError> {
        look(&self.store.view())
    }

    /// Nothing happens if `edit` fails. `edit` runs alone and must not come back here: it would wait for itself.
    pub(crate) fn change<R>(
        &self,
        edit: impl FnOnce(&mut dyn RowsMut) -> Result<R, RowsError>,
    ) -> Result<R, RowsError> {
        let mut change = self.store.change();
        let outcome = edit(&mut change)?;
        change.commit();
        Ok(outcome)
    }

    /// Makes all changes so far durable.
    pub(crate) fn flush(&self) -> Result<(), kv::KvError> {
        let gone = self.forgotten().clone();
        self.store.flush()?;
        self.forgotten().retain(|container, known| gone.get(container) != Some(known));
        Ok(())
    }

    pub(crate) fn replica(&self, block: BlockId) -> Result<Option<Row>, RowsError> {
        self.view(|rows| replica(rows, block))
    }

    /// Up to `limit` replicas from `from` on, by block.
    pub(crate) fn replicas(&self, from: BlockId, limit: usize) -> Result<Vec<(BlockId, Row)>, RowsError> {
        self.view(|rows| {
            let mut found = Vec::new();
            let mut bad = None;
            rows.scan(REPLICA, Bound::Included(&from.0.to_be_bytes()), &mut |key, value| {
                if found.len() >= limit {
                    return ControlFlow::Break(());
                }
                match (<[u8; 8]>::try_from(key), decode(value)) {
                    (Ok(key), Ok(row)) => {
                        found.push((BlockId(u64::from_be_bytes(key)), row));
                        ControlFlow::Continue(())
                    }
                    (_, row) => {
                        bad = Some(row.err().unwrap_or_else(|| error("a replica's key is not eight bytes")));
                        ControlFlow::Break(())
                    }
                }
            })?;
            bad.map_or(Ok(found), Err)
        })
    }

    pub(crate) fn container(&self, container: ContainerId) -> Result<ContainerRow, RowsError> {
        self.view(|rows| read_container(rows, container))
    }

    /// Where the next pack of a container that has none begins, at least.
    pub(crate) fn pack_known(&self, container: ContainerId) -> Result<u64, RowsError> {
        // The row first: whoever removes it says before how far it went.
        let known = self.container(container)?.pack_known;
        let forgotten = self.forgotten().get(&container).copied();
        Ok(known.max(forgotten.unwrap_or(0)))
    }

    /// Containers that have a row.
    pub(crate) fn containers(&self) -> Result<Vec<ContainerId>, RowsError> {
        self.view(|rows| {
            let mut keys = Vec::new();
            rows.scan(CONTAINER, Bound::Unbounded, &mut |key, _| {
                keys.push(<[u8; 8]>::try_from(key));
                ControlFlow::Continue(())
            })?;
            let id = |key: Result<[u8; 8], _>| key.map(|key| ContainerId(u64::from_be_bytes(key)));
            keys.into_iter().map(|key| id(key).map_err(|_| error("a container's key is not eight bytes"))).collect()
        })
    }

    /// Removes what is known of a container, unless its pack has replicas.
    pub(crate) fn forget_container(&self, container: ContainerId) -> Result<(), RowsError> {
        let is_known = self.view(|rows| {
            let dead = rows.get(VOLUME, &dead_key(container))?;
            Ok(dead.is_some() || rows.get(CONTAINER, &container.0.to_be_bytes())?.is_some())
        })?;
        if !is_known {
            return Ok(());
        }
        self.change(|rows| {
            let row = read_container(rows, container)?;
            if row.pack_live_count == 0 {
                if row.pack_known > 0 {
                    self.forgotten().insert(container, row.pack_known);
                }
                rows.delete(CONTAINER, &container.0.to_be_bytes());
                rows.delete(VOLUME, &dead_key(container));
            }
            Ok(())
        })
    }

    pub(crate) fn dead_len(&self, container: ContainerId) -> Result<u64, RowsError> {
        self.view(|rows| get(rows, VOLUME, &dead_key(container)).map(Option::unwrap_or_default))
    }

    pub(crate) fn set_dead_len(&self, container: ContainerId, len: u64) -> Result<(), RowsError> {
        self.change(|rows| put(rows, VOLUME, &dead_key(container), &len))
    }

    pub(crate) fn totals(&self) -> Result<Totals, RowsError> {
        self.view(|rows| get(rows, VOLUME, b"totals").map(Option::unwrap_or_default))
    }

    /// The volume whose containers were all read into this index; `None` for an index that is new.
    pub(crate) fn complete_for(&self) -> Result<Option<Vec<u8>>, RowsError> {
        self.view(|rows| rows.get(VOLUME, b"volume"))
    }

    pub(crate) fn set_complete_for(&self, volume: [u8; 16]) -> Result<(), RowsError> {
        self.change(|rows| {
            rows.put(VOLUME, b"volume", volume.to_vec());
            Ok(())
        })
    }
}

fn dead_key(container: ContainerId) -> Vec<u8> {
    [&b"dead"[..], &container.0.to_be_bytes()].concat()
}

pub(crate) fn replica(rows: &dyn Rows, block: BlockId) -> Result<Option<Row>, RowsError> {
    get(rows, REPLICA, &block.0.to_be_bytes())
}

pub(crate) fn read_container(rows: &dyn Rows, container: ContainerId) -> Result<ContainerRow, RowsError> {
    get(rows, CONTAINER, &container.0.to_be_bytes()).map(Option::unwrap_or_default)
}

pub(crate) fn write_container(
    rows: &mut dyn RowsMut,
    container: ContainerId,
    row: ContainerRow,
) -> Result<(), RowsError> {
    put(rows, CONTAINER, &container.0.to_be_bytes(), &row)
}

/// Sets or (`None`) removes a replica's row and keeps the totals true. Returns the row that was there.
pub(crate) fn set_replica(rows: &mut dyn RowsMut, block: BlockId, row: Option<&Row>) -> Result<Option<Row>, RowsError> {
    let key = block.0.to_be_bytes();
    let old = replica(rows, block)?;
    let mut totals: Totals = get(rows, VOLUME, b"totals")?.unwrap_or_default();
    if let Some(old) = &old {
        totals.used = totals.used.saturating_sub(old.used());
        totals.count = totals.count.saturating_sub(1);
        adjust_live_count(rows, old.place, -1)?;
    }
    match row {
        Some(row) => {
            totals.used += row.used();
            totals.count += 1;
            adjust_live_count(rows, row.place, 1)?;
            put(rows, REPLICA, &key, row)?;
        }
        None => rows.delete(REPLICA, &key),
    }
    put(rows, VOLUME, b"totals", &totals)?;
    Ok(old)
}

fn adjust_live_count(rows: &mut dyn RowsMut, place: Place, by: i64) -> Result<(), RowsError> {
    if let Place::Pack { shelf, .. } = place {
        let mut row = read_container(rows, shelf)?;
        row.pack_live_count = row.pack_live_count.saturating_add_signed(by);
        write_container(rows, shelf, row)?;
    }
    Ok(())
}

fn get<T: DeserializeOwned>(rows: &dyn Rows, table: Table, key: &[u8]) -> Result<Option<T>, RowsError> {
    rows.get(table, key)?.map(|value| decode(&value)).transpose()
}

fn put<T: Serialize>(rows: &mut dyn RowsMut, table: Table, key: &[u8], value: &T) -> Result<(), RowsError> {
    rows.put(table, key, encode(value)?);
    Ok(())
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, RowsError> {
    postcard::to_extend(value, vec![ROW_VERSION]).map_err(|problem| error(&problem.to_string()))
}

pub(crate) fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, RowsError> {
    match value.split_first() {
        Some((&ROW_VERSION, body)) => postcard::from_bytes(body).map_err(|problem| error(&problem.to_string())),
        Some((version, _)) => Err(error(&format!("a row has version {version}, known is {ROW_VERSION}"))),
        None => Err(error("a row is empty")),
    }
}

pub(crate) fn error(reason: &str) -> RowsError {
    RowsError { op: "volume index", reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(len: u64, place: Place) -> Row {
        let checksum = ChecksumSpec::DEFAULT;
        Row { generation: Generation(1001), file: types::InodeId(1), home: ContainerId(7), checksum, len, place }
    }

    #[test]
    fn totals_and_live_counts_follow_the_rows() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path()).unwrap();
        let block = BlockId::new(ContainerId(7), 1);
        let packed = row(100, Place::Pack { shelf: ContainerId(7), offset: 0 });
        let filed = row(1024, Place::Files { shelf: ContainerId(7) });
        let set = |row: Option<&Row>| index.change(|rows| set_replica(rows, block, row)).unwrap();
        assert_eq!(set(Some(&packed)), None);
        assert_eq!(index.totals().unwrap(), Totals { used: 104, count: 1 });
        assert_eq!(index.container(ContainerId(7)).unwrap().pack_live_count, 1);
        assert_eq!(set(Some(&filed)), Some(packed));
        assert_eq!(index.totals().unwrap(), Totals { used: 1032, count: 1 });
        assert_eq!(index.container(ContainerId(7)).unwrap().pack_live_count, 0);
        assert_eq!(index.replicas(BlockId(0), 9).unwrap(), [(block, filed)]);
        assert_eq!(set(None), Some(filed));
        assert_eq!(index.totals().unwrap(), Totals::default());
        assert_eq!(set(None), None);
    }
}
