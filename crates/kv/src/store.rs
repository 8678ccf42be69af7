//! The store: its layers, and how they come to disk.

use crate::KvError;
use crate::change::Change;
use crate::disk::Disk;
use crate::layer::Layer;
use crate::view::View;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of changes in memory beyond which the next change waits for a flush.
    pub overlay_len_max: usize,
    /// Address space for the file, and so its greatest length. It costs nothing until it is used.
    pub map_len: usize,
}

impl Default for Options {
    /// 64 MiB of changes are about 400,000 rows, half a second of LMDB's work; 1 TiB is more than a billion files need.
    fn default() -> Self {
        Self { overlay_len_max: 64 << 20, map_len: 1 << 40 }
    }
}

/// A cheap handle; all clones are the same store, which closes with the last.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    disk: Disk,
    layers: RwLock<Layers>,
    /// Held by whoever flushes, so that there is one frozen layer at most.
    flushing: Mutex<()>,
    overlay_len_max: usize,
}

/// Changes that are not on disk yet.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) active: Layer,
    /// Being committed to disk; it still decides until that is done.
    frozen: Option<Arc<Layer>>,
}

impl Layers {
    pub(crate) fn topmost_first(&self) -> Vec<&Layer> {
        std::iter::once(&self.active).chain(self.frozen.as_deref()).collect()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the store in `dir`, which is made if it is not there. One process at a time.
    pub fn open(dir: &Path, options: Options) -> Result<Self, KvError> {
        let disk = Disk::open(dir, options.map_len)?;
        let overlay_len_max = options.overlay_len_max;
        let inner = Inner { disk, layers: RwLock::default(), flushing: Mutex::default(), overlay_len_max };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The rows as of now.
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// Begins a change. Waits for the change under way, for views that are open, and, if too much is in memory, for a flush.
    pub fn change(&self) -> Change<'_> {
        if self.overlay_len() > self.inner.overlay_len_max {
            // A flush that fails keeps its rows in memory, and whoever flushes in the background reports it.
            let _ = self.flush();
        }
        Change::new(self)
    }

    /// Brings every committed change to disk. Views and changes go on meanwhile.
    pub fn flush(&self) -> Result<(), KvError> {
        let _one = self.inner.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (frozen, left_over) = self.freeze();
            let Some(frozen) = frozen else { return Ok(()) };
            self.inner.disk.commit(&frozen)?;
            self.layers().write().unwrap_or_else(PoisonError::into_inner).frozen = None;
            if !left_over {
                return Ok(());
            }
        }
    }

    /// The frozen layer, made from the active one unless a flush that failed left one over.
    fn freeze(&self) -> (Option<Arc<Layer>>, bool) {
        let mut layers = self.layers().write().unwrap_or_else(PoisonError::into_inner);
        let left_over = layers.frozen.is_some();
        if !left_over && !layers.active.is_empty() {
            layers.frozen = Some(Arc::new(std::mem::take(&mut layers.active)));
        }
        (layers.frozen.clone(), left_over)
    }

    /// Bytes of changes that are not on disk yet.
    pub fn overlay_len(&self) -> usize {
        let layers = self.layers().read().unwrap_or_else(PoisonError::into_inner);
        layers.topmost_first().iter().map(|layer| layer.len()).sum()
    }

    pub(crate) fn layers(&self) -> &RwLock<Layers> {
        &self.inner.layers
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.inner.disk
    }
}
