//! What is kept at hand of containers: their packs, and their directories that are known to be there.
//!
//! Promise: a container that holds nothing here, and into which nothing was put of late, has no directory and no row; both come again when they are
//! needed. Nobody has to say so: the directory is removed as an empty one, so whatever lies in it keeps it.

use crate::error::{ReplicaError, Result};
use crate::group::GroupSync;
use crate::pack::Pack;
use crate::volume::{Durability, Inner, lock};
use std::io::ErrorKind;
use std::sync::Arc;
use types::ContainerId;

/// Packs and directories kept at hand; above it, those that nobody uses go.
const KEPT_COUNT: usize = 256;

impl Inner {
    /// The pack of a container; `None` if there is none and it shall not be made.
    pub(crate) fn pack(&self, shelf: ContainerId, create: bool) -> Result<Option<Arc<Pack>>> {
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let mut packs = lock(&self.packs);
        if let Some(pack) = packs.get(&shelf) {
            return Ok(Some(Arc::clone(pack)));
        }
        let path = self.layout.pack(shelf);
        if create {
            self.shelf(shelf)?;
        }
        let known = self.index.container(shelf)?.pack_known;
        match Pack::open(&path, shelf, known, create, |_, _| {}) {
            Ok(pack) => {
                // Before anybody else sees the pack: a record in a file whose name is lost is lost.
                if create && self.options.durability == Durability::Synced {
                    io::file::sync_dir(&self.layout.container(shelf)).map_err(io("sync the container's directory"))?;
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
            Err(error) => Err(io("open the pack")(error)),
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
            made => made.map_err(io("create the container's directory"))?,
        }
        if self.options.durability == Durability::Synced {
            io::file::sync_dir(&self.layout.containers()).map_err(io("sync the directory of containers"))?;
        }
        if shelves.len() >= KEPT_COUNT {
            shelves.retain(|_, syncs| Arc::strong_count(syncs) > 1);
        }
        let syncs = Arc::new(GroupSync::default());
        shelves.insert(shelf, Arc::clone(&syncs));
        Ok(syncs)
    }

    /// Removes what is left of a container if it holds nothing. To be called where nothing can be put there meanwhile: it has no mark, or its
    /// mark just goes.
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

    /// As [`Self::clear_away`], for all containers: one that was emptied just before a crash has no mark, and nobody comes back to it.
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
