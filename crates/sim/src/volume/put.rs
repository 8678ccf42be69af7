//! Replicas become whole.

use super::{Opened, PACK_LEN_MAX, Phase, Result, Volume, VolumeError};
use crate::platter::{Identity, Stage, Stored};
use types::{BlockId, Generation};

impl Volume {
    /// What was not on disk before a sync that failed may never come there.
    pub(super) async fn sync_open(&self, block: BlockId) -> Result<()> {
        let outcome = self.0.disk.sync().await;
        if outcome.is_err() {
            self.on_open(block, Stored::sync_failed);
        }
        self.note(outcome)
    }

    /// Before a header says that they are to be kept: it takes the place of one that vouched for less.
    pub(super) async fn sync_data(&self, block: BlockId) -> Result<()> {
        let written = self.on_open(block, |stored| stored.written());
        self.sync_open(block).await?;
        self.on_open(block, |stored| stored.synced_data(written));
        Ok(())
    }

    /// The caller holds the files.
    pub(super) async fn put_locked(&self, block: BlockId, replica: &Opened, len: usize) -> Result<()> {
        let image = self.open_image(block);
        if image.data.len() != len {
            return Err(VolumeError::Length);
        }
        // What a writer once had synced is put with a sync.
        let synced = (self.0.synced || image.kept.0 > 0) && !self.forgets_sync();
        let finalized = Stage::Finalized { len };
        if len <= PACK_LEN_MAX {
            let mut record = Stored::new(image.identity, finalized);
            record.write_data(0, &image.data);
            record.write_sums(0, &image.sums);
            self.note(self.0.disk.write().await)?;
            if synced {
                self.note(self.0.disk.sync().await)?;
                let written = record.written();
                record.synced(written, true);
            }
            let mut platter = self.0.platter.borrow_mut();
            platter.shelf.insert(block, record);
            platter.remove_open(block);
        } else {
            self.note(self.0.disk.write().await)?;
            if synced {
                self.sync_data(block).await?;
            }
            let written = self.on_open(block, |stored| {
                stored.keep();
                stored.set_header(image.identity, finalized);
                stored.written()
            });
            if synced {
                self.sync_open(block).await?;
                self.on_open(block, |stored| stored.synced(written, false));
            }
            let stored = self.0.platter.borrow_mut().open.remove(&block);
            if let Some(stored) = stored {
                self.0.platter.borrow_mut().shelf.insert(block, stored);
            }
            if synced {
                let outcome = self.note(self.0.disk.sync().await);
                let mut platter = self.0.platter.borrow_mut();
                if let Err(error) = outcome {
                    // As the crate has it, the files stay on the shelf and the replica is still called open.
                    if let Some(mut stored) = platter.shelf.remove(&block) {
                        stored.sync_failed();
                        platter.open.insert(block, stored);
                    }
                    return Err(error);
                }
                if let Some(stored) = platter.shelf.get_mut(&block) {
                    let written = stored.written();
                    stored.synced(written, true);
                }
                platter.forget_removed();
            }
        }
        self.0.open.borrow_mut().remove(&block);
        replica.phase.set(Phase::Gone);
        Ok(())
    }

    /// A copy from another node, whole. `replaces`: a damaged one of the same generation makes room.
    pub(crate) async fn put_copy(&self, identity: Identity, bytes: &[u8], replaces: bool) -> Result<()> {
        self.check_health()?;
        let block = identity.block;
        let _stripe = self.stripe(block).await;
        // One of the very generation of a recovery is what that came to.
        if self.0.recovering.borrow().get(&block).is_some_and(|by| *by > identity.generation) {
            return Err(VolumeError::Fenced);
        }
        // What cannot be written costs nothing.
        self.check_room(bytes.len())?;
        self.note(self.0.disk.write().await)?;
        let makes_room = |have: Generation| have < identity.generation || replaces && have == identity.generation;
        if let Some(open) = self.find_open(block) {
            if !makes_room(self.open_image(block).identity.generation) || replaces && open.has_writer.get() {
                return Err(VolumeError::Exists);
            }
            open.fence();
            drop(open.files.lock().await);
            if open.phase.get() != Phase::Gone {
                self.discard(block, &open);
            }
        }
        if self.shelved(block).is_some_and(|shelved| !makes_room(shelved.identity.generation)) {
            return Err(VolumeError::Exists);
        }
        let mut copy = Stored::new(identity, Stage::Finalized { len: bytes.len() });
        copy.write_data(0, bytes);
        copy.write_sums(0, &crate::platter::sums_of(bytes));
        copy.keep();
        // Also where nothing else is synced: those it was copied from may go, and what they had was perhaps synced
        // once.
        if !self.forgets_sync() {
            self.note(self.0.disk.sync().await)?;
            let written = copy.written();
            copy.synced(written, true);
        }
        let mut platter = self.0.platter.borrow_mut();
        platter.remove_shelved(block);
        platter.shelf.insert(block, copy);
        self.0.recovering.borrow_mut().remove(&block);
        Ok(())
    }

    /// A small block that came whole, as one record.
    pub(crate) async fn put_small(&self, identity: Identity, bytes: &[u8], synced: bool) -> Result<()> {
        self.check_health()?;
        let block = identity.block;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, identity.generation)?;
        if let Some(shelved) = self.shelved(block) {
            let have = shelved.identity.generation;
            if have == identity.generation && shelved.data == bytes {
                return Ok(()); // it was asked for again
            }
            return Err(VolumeError::Exists);
        }
        if self.find_open(block).is_some() {
            return Err(VolumeError::Exists);
        }
        self.check_room(bytes.len())?;
        self.note(self.0.disk.write().await)?;
        let mut record = Stored::new(identity, Stage::Finalized { len: bytes.len() });
        record.write_data(0, bytes);
        record.write_sums(0, &crate::platter::sums_of(bytes));
        if (self.0.synced || synced) && !self.forgets_sync() {
            record.keep();
            self.note(self.0.disk.sync().await)?;
            let written = record.written();
            record.synced(written, true);
        }
        self.0.platter.borrow_mut().shelf.insert(block, record);
        Ok(())
    }
}
