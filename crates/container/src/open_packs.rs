//! What is kept at hand of containers: their packs, and their directories that are known to be there.
//!
//! Promise: a container that holds nothing here, and into which nothing was put of late, has no directory and no row;
//! both come again when they are needed. Nobody has to say so: the directory is removed as an empty one, so whatever
//! lies in it keeps it.

use crate::directories::{open_dir, sync_names};
use crate::error::{DiskOp, ReplicaError, Result};
use crate::group_sync::GroupSync;
use crate::inner::{Inner, lock};
use crate::options::Durability;
use crate::pack::Pack;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use types::ContainerId;

/// Packs and directories kept at hand; above it, those that nobody uses go.
const KEPT_COUNT: usize = 256;

/// See [`Inner::open_shelf`].
#[derive(Debug)]
pub(crate) struct OpenShelf {
    dir: File,
    above: Option<File>,
}

impl Inner {
    /// Makes the names in `open/` durable.
    pub(crate) fn sync_open_names(&self, container: ContainerId) -> Result<()> {
        self.sync_names_in(&self.layout.open(), &self.directories.open, container)
    }

    /// Makes the names of containers durable.
    pub(crate) fn sync_container_names(&self, container: ContainerId) -> Result<()> {
        self.sync_names_in(&self.layout.containers(), &self.directories.containers, container)
    }

    fn sync_names_in(&self, dir: &Path, syncs: &GroupSync, container: ContainerId) -> Result<()> {
        let dir = open_dir(dir, container)?;
        self.meters.sync(|| sync_names(&dir, syncs, container))
    }

    /// The directories whose names a replica in files needs, opened before anything is moved: a process without
    /// descriptors has not failed to sync anything.
    pub(crate) fn open_shelf(&self, shelf: ContainerId) -> Result<OpenShelf> {
        let above = match self.options.durability {
            Durability::Synced => None, // it was made durable when the directory was made
            Durability::Replicated => Some(open_dir(&self.layout.containers(), shelf)?),
        };
        Ok(OpenShelf { dir: open_dir(&self.layout.container(shelf), shelf)?, above })
    }

    /// Makes the names in a container's directory durable, and its own. `syncs` are what [`Self::shelf`] returned.
    pub(crate) fn sync_open_shelf(&self, shelf: ContainerId, open: &OpenShelf, syncs: &GroupSync) -> Result<()> {
        self.meters.sync(|| sync_names(&open.dir, syncs, shelf))?;
        let Some(above) = &open.above else { return Ok(()) };
        self.meters.sync(|| sync_names(above, &self.directories.containers, shelf))
    }

    /// The pack of a container; `None` if there is none and it shall not be made.
    pub(crate) fn pack(&self, shelf: ContainerId, create: bool) -> Result<Option<Arc<Pack>>> {
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let mut packs = lock(&self.packs);
        if let Some(pack) = packs.get(&shelf) {
            return Ok(Some(Arc::clone(pack)));
        }
        let path = self.layout.pack(shelf);
        let syncs = if create { Some(self.shelf(shelf)?) } else { None };
        let known = self.index.pack_known(shelf)?;
        match Pack::open(&path, (self.salt(), shelf), known, create, |_, _| {}) {
            Ok(pack) => {
                // Before anybody else sees the pack: a record in a file whose name is lost is lost.
                if let Some(syncs) = syncs.filter(|_| self.options.durability == Durability::Synced) {
                    self.sync_open_shelf(shelf, &self.open_shelf(shelf)?, &syncs)?;
                }
                if packs.len() >= KEPT_COUNT {
                    packs.retain(|_, pack| Arc::strong_count(pack) > 1);
                }
                pack.set_dead_len(self.index.dead_len(shelf)?);
                let pack = Arc::new(pack);
                packs.insert(shelf, Arc::clone(&pack));
                Ok(Some(pack))
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !create => Ok(None),
            Err(error) => Err(io(DiskOp::Open("the pack"))(error)),
        }
    }

    /// Sees to it that the container's directory is there, and its name durable. Returns what syncs the names in it.
    pub(crate) fn shelf(&self, shelf: ContainerId) -> Result<Arc<GroupSync>> {
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let mut shelves = lock(&self.shelves);
        if let Some(syncs) = shelves.get(&shelf) {
            return Ok(Arc::clone(syncs));
        }
        // Nothing above it is made: where the disk is gone, something else lies below its path now.
        match std::fs::create_dir(self.layout.container(shelf)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(io(DiskOp::Create("the container's directory")))?,
        }
        if self.options.durability == Durability::Synced {
            self.sync_container_names(shelf)?;
        }
        if shelves.len() >= KEPT_COUNT {
            shelves.retain(|_, syncs| Arc::strong_count(syncs) > 1);
        }
        let syncs = Arc::new(GroupSync::default());
        shelves.insert(shelf, Arc::clone(&syncs));
        Ok(syncs)
    }

    /// Removes what is left of a container if it holds nothing. To be called where nothing can be put there meanwhile:
    /// it has no mark, or its mark just goes.
    pub(crate) fn clear_away(&self, shelf: ContainerId) {
        let mut shelves = lock(&self.shelves);
        match std::fs::remove_dir(self.layout.container(shelf)) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => return,
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(container = %shelf, %error, "the directory of an empty container stays");
                return;
            }
            _ => {}
        }
        shelves.remove(&shelf);
        drop(shelves);
        if let Err(error) = self.index.forget_container(shelf) {
            tracing::warn!(container = %shelf, %error, "the row of an empty container stays");
        }
    }

    /// As [`Self::clear_away`], for all containers: one that was emptied just before a crash has no mark, and nobody
    /// comes back to it.
    pub(crate) fn clear_away_all(&self) -> Result<()> {
        let mut all = self.all_containers()?;
        all.extend(self.index.containers()?);
        for shelf in all {
            self.ahead.if_quiet(shelf, || self.clear_away(shelf));
        }
        Ok(())
    }

    /// Forgets a pack whose file was removed; but not the one that somebody may have begun in its place meanwhile.
    pub(crate) fn drop_removed_pack(&self, removed: &Arc<Pack>) {
        let mut packs = lock(&self.packs);
        if packs.get(&removed.container).is_some_and(|pack| Arc::ptr_eq(pack, removed)) {
            packs.remove(&removed.container);
        }
    }
}
