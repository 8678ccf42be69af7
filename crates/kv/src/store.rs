//! The store: its layers, and how they come to disk.

use crate::change_guard::Held;
use crate::disk::Disk;
use crate::error::KvError;
use crate::import::Import;
use crate::layer::{Layer, full_key};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use types::rows::Table;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of changes in memory beyond which the next change waits for a flush.
    pub overlay_len_max: usize,
    /// Address space for the file, and so its greatest length. It costs nothing until it is used.
    pub map_len: usize,
}

impl Default for Options {
    /// 64 MiB of changes are about 250,000 rows, half a second of LMDB's work; 1 TiB is more than a billion files need.
    fn default() -> Self {
        Self { overlay_len_max: 64 << 20, map_len: 1 << 40 }
    }
}

/// LMDB wants whole pages of the machine; this is a multiple of any page length in use.
const MAP_GRAIN: usize = 1 << 16;

/// A cheap handle; all clones are the same store, which closes with the last.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// Whoever takes several of the locks takes them in the order in which they stand here.
struct Inner {
    /// Held by whoever flushes, so that there is one frozen layer at most.
    flushing: Mutex<()>,
    /// Held by the change under way.
    changing: Mutex<()>,
    /// Held for a moment by everybody: a view takes a copy of the pointer and goes.
    layers: RwLock<Arc<Layers>>,
    /// Layers that views had at their ends and that were flushed before.
    released: Mutex<Vec<Arc<Layers>>>,
    /// As in the layers.
    moves: AtomicU64,
    disk: Disk,
    overlay_len_max: usize,
}

/// A change of so many rows is made where all see it, while a view that begins waits: some tens of microseconds.
const IN_PLACE_COUNT_MAX: usize = 64;
/// Layers that wait to be freed; further views free theirs themselves. A guess: views that live over a flush are rare.
const RELEASED_COUNT_MAX: usize = 64;

/// Changes that are not on disk yet, as of one moment.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    pub(crate) active: Layer,
    /// Being committed to disk; it still decides until that is done.
    pub(crate) frozen: Option<Layer>,
    /// Rises when rows move from one layer to the next, or from here to the disk.
    moves: u64,
    /// Rises when the active layer is frozen, and so empty.
    freezes: u64,
    /// Rises when rows change.
    pub(crate) commits: u64,
}

impl Layers {
    fn len(&self) -> usize {
        self.active.len() + self.frozen.as_ref().map_or(0, Layer::len)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the store in `dir`, which is made if it is not there. One process at a time, and one opening in it.
    pub fn open(dir: &Path, options: Options) -> Result<Self, KvError> {
        let disk = Disk::open(dir, options.map_len.next_multiple_of(MAP_GRAIN))?;
        let inner = Inner {
            flushing: Mutex::default(),
            changing: Mutex::default(),
            layers: RwLock::default(),
            moves: AtomicU64::new(0),
            released: Mutex::default(),
            disk,
            overlay_len_max: options.overlay_len_max,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits for the change under way and, if too much is in memory, for a flush. Only the holder commits.
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        if self.overlay_len() > self.inner.overlay_len_max
            && let Err(error) = self.flush()
        {
            // The rows stay in memory; whoever flushes in the background gets the error too, and stops the node.
            tracing::error!(%error, "changes in memory are over their limit and cannot be brought to disk");
        }
        Held::refuse(self.identity());
        self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings every change that was committed before to disk. Views and changes go on meanwhile.
    pub fn flush(&self) -> Result<(), KvError> {
        let _one = self.inner.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.free_released();
        loop {
            let (frozen, left_over) = self.freeze();
            let Some(frozen) = frozen else { return Ok(()) };
            self.inner.disk.commit(&frozen)?;
            let done = self.move_rows(|layers| layers.frozen.take());
            // Freeing hundreds of thousands of rows takes a while; nobody waits for it here.
            drop((frozen, done));
            self.free_released();
            if !left_over {
                return Ok(());
            }
        }
    }

    /// Puts the rows of another store, and then `rows` (table, key, value), in the place of all that is here, also of
    /// what was not flushed; all in one step that a crash cannot divide. Views go on with the old rows until then.
    pub fn replace(&self, mut import: Import, rows: &[(Table, &[u8], &[u8])]) -> Result<(), KvError> {
        Held::refuse(self.identity());
        let _no_flush = self.inner.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let _no_change = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replacement = self.inner.disk.replace()?;
        import.read_back(|full, value| replacement.append(full, value))?;
        for (table, key, value) in rows {
            replacement.put(&full_key(*table, key), value)?;
        }
        // No view may see the new rows below the old changes: those that begin now wait for the disk.
        let gone = self.move_rows(|layers| {
            replacement.commit()?;
            layers.commits += 1;
            Ok::<_, KvError>((std::mem::take(&mut layers.active), layers.frozen.take()))
        });
        gone.map(drop)
    }

    /// The frozen layer, made from the active one unless a flush that failed left one over.
    fn freeze(&self) -> (Option<Layer>, bool) {
        self.move_rows(|layers| {
            let left_over = layers.frozen.is_some();
            if !left_over && !layers.active.is_empty() {
                layers.frozen = Some(std::mem::take(&mut layers.active));
                layers.freezes += 1;
            }
            (layers.frozen.clone(), left_over)
        })
    }

    /// Moves rows between the layers in one step, of which a view sees all or nothing.
    fn move_rows<T>(&self, step: impl FnOnce(&mut Layers) -> T) -> T {
        let mut layers = self.inner.layers.write().unwrap_or_else(PoisonError::into_inner);
        let layers = Arc::make_mut(&mut layers);
        layers.moves += 1;
        self.inner.moves.store(layers.moves, Ordering::Release);
        step(layers)
    }

    /// Puts the rows of a change above all others. The caller is the only one who commits.
    pub(crate) fn commit(&self, staged: Layer) {
        let lock = || self.inner.layers.write().unwrap_or_else(PoisonError::into_inner);
        if staged.row_count() <= IN_PLACE_COUNT_MAX {
            let mut layers = lock();
            let layers = Arc::make_mut(&mut layers);
            layers.commits += 1;
            layers.active.absorb(&staged);
            return;
        }
        // Made beside what all see. Only a flush can come between, which moves rows and changes none.
        let (mut above, freezes) = self.at_this_moment(|layers| (layers.active.clone(), layers.freezes));
        above.absorb(&staged);
        let mut layers = lock();
        let layers_mut = Arc::make_mut(&mut layers);
        layers_mut.commits += 1;
        // What it was put above may be frozen by now, or on disk; then it is all there is.
        let active = if layers_mut.freezes == freezes { above } else { staged };
        let old = std::mem::replace(&mut layers_mut.active, active);
        drop(layers);
        drop(old);
    }

    /// Runs `look` while no commit and no flush changes what is in memory. It must be short.
    pub(crate) fn at_this_moment<T>(&self, look: impl FnOnce(&Arc<Layers>) -> T) -> T {
        look(&self.inner.layers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A view ends. Freeing layers that were flushed since takes a while, so that is left to the next flush: the view's
    /// thread may be one of those that all calls need.
    pub(crate) fn release(&self, layers: &mut Arc<Layers>) {
        if layers.moves == self.inner.moves.load(Ordering::Acquire) {
            return;
        }
        let mut released = self.inner.released.lock().unwrap_or_else(PoisonError::into_inner);
        if released.len() < RELEASED_COUNT_MAX {
            released.push(std::mem::take(layers));
        }
    }

    fn free_released(&self) {
        let released = std::mem::take(&mut *self.inner.released.lock().unwrap_or_else(PoisonError::into_inner));
        drop(released);
    }

    /// Bytes of changes that are not on disk yet.
    pub fn overlay_len(&self) -> usize {
        self.at_this_moment(|layers| layers.len())
    }

    /// Bytes of the file that later flushes can use before it grows, as of the last flush: it never shrinks. Among them
    /// are those that the last flush freed, for the one after the next, and those that an export still reads.
    pub fn reusable_len(&self) -> Result<u64, KvError> {
        self.inner.disk.reusable_len()
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> Result<u64, KvError> {
        self.inner.disk.file_len()
    }

    /// What it may grow to: [`Options::map_len`].
    pub fn map_len(&self) -> usize {
        self.inner.disk.map_len()
    }

    /// True if a flush should not wait for its usual time, so that changes need not wait for it.
    pub fn is_large(&self) -> bool {
        self.overlay_len() > self.inner.overlay_len_max / 2
    }

    /// True if one of the next changes may have to wait for a flush.
    pub fn must_soon_flush(&self) -> bool {
        self.overlay_len() > self.inner.overlay_len_max / 4 * 3
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.inner.disk
    }

    /// Tells this store from others that are open.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::{Bound, ControlFlow};
    use types::random::{Random, Seeded};
    use types::rows::{MemoryRows, Rows, RowsMut, Table};

    fn all(rows: &dyn Rows, table: Table, from: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        rows.scan(table, from, &mut visit).unwrap();
        found
    }

    /// What is deleted gives its pages back inside the file, and what comes then takes them.
    #[test]
    fn deleted_rows_leave_room_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options { overlay_len_max: 64 << 20, map_len: 256 << 20 }).unwrap();
        let file_len = || std::fs::metadata(dir.path().join("data.mdb")).unwrap().len();
        let put = |keys: std::ops::Range<u32>, value: Option<&[u8]>| {
            let mut change = store.change();
            for key in keys.map(u32::to_be_bytes) {
                match value {
                    Some(value) => change.put(Table(1), &key, value.to_vec()),
                    None => change.delete(Table(1), &key),
                }
            }
            change.commit();
            store.flush().unwrap();
        };
        put(0..20_000, Some(&[1; 400]));
        let full_len = file_len();
        assert!(store.reusable_len().unwrap() < full_len / 20, "{}", store.reusable_len().unwrap());
        put(0..18_000, None);
        let free_len = store.reusable_len().unwrap();
        assert!(free_len > full_len / 10 * 8, "{free_len} of {full_len}");
        // LMDB uses pages again after one more transaction.
        put(19_999..20_000, None);
        put(20_000..36_000, Some(&[2; 400]));
        assert!(file_len() < full_len + full_len / 10, "the file grew from {full_len} to {}", file_len());
        assert!(store.reusable_len().unwrap() < free_len / 4);
    }

    /// Rows on disk, rows that are being flushed, rows above them and rows of a change, all at once, read as one map.
    #[test]
    fn four_layers_are_read_as_one() {
        for seed in 0..30 {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path(), Options { overlay_len_max: 1 << 20, map_len: 16 << 20 }).unwrap();
            let (mut model, mut random) = (MemoryRows::default(), Seeded(seed));
            let mut edit = |rows: &mut dyn RowsMut| {
                for _ in 0..60 {
                    let (table, key) = (Table(1 + random.below(3) as u8), [random.below(40) as u8]);
                    if random.below(3) == 0 {
                        rows.delete(table, &key);
                        model.delete(table, &key);
                    } else {
                        let value = random.next_u64().to_be_bytes().to_vec();
                        rows.put(table, &key, value.clone());
                        model.put(table, &key, value);
                    }
                }
            };
            for step in 0..3 {
                let mut change = store.change();
                edit(&mut change);
                change.commit();
                match step {
                    0 => store.flush().unwrap(),
                    1 => assert!(store.freeze().0.is_some()),
                    _ => {}
                }
            }
            let mut change = store.change();
            edit(&mut change);
            for table in [1, 2, 3, 4, 255].map(Table) {
                assert!((1..4).contains(&table.0) || all(&change, table, Bound::Unbounded).is_empty());
                for key in 0..42 {
                    let key = [key];
                    assert_eq!(change.get(table, &key).unwrap(), model.get(table, &key).unwrap());
                    let last = change.last_at_most(table, &key).unwrap();
                    assert_eq!(last, model.last_at_most(table, &key).unwrap(), "seed {seed}");
                    for from in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
                        assert_eq!(all(&change, table, from), all(&model, table, from), "seed {seed}");
                    }
                }
            }
            change.commit();
            store.flush().unwrap();
            assert_eq!(store.overlay_len(), 0);
            assert_eq!(all(&store.view(), Table(2), Bound::Unbounded), all(&model, Table(2), Bound::Unbounded));
        }
    }
}
