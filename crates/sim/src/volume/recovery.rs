//! The writer is gone: replicas are fenced, and put at one length.

use super::{Info, Opened, Phase, Result, Volume, VolumeError};
use crate::platter::{Identity, Stage};
use std::rc::Rc;
use types::mutation::{self, Mutation};
use types::{BlockId, Generation};

impl Volume {
    pub(super) async fn settle(&self, block: BlockId, replica: &Opened) -> Result<()> {
        if replica.phase.get() == (Phase::Waiting { settled: false }) {
            self.0.disk.read().await;
            self.note(self.0.disk.write().await)?;
            let sound = self.open_image(block).sound_len();
            self.on_open(block, |stored| {
                stored.cut(sound);
                stored.write_again();
            });
            replica.phase.set(Phase::Waiting { settled: true });
            replica.visible.set(sound);
        }
        Ok(())
    }

    pub(crate) async fn begin_recovery(&self, block: BlockId, recovery: Generation) -> Result<Info> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_recovery(block, recovery)?;
        if let Some(replica) = self.find_open(block) {
            if self.open_image(block).identity.generation >= recovery {
                return Err(VolumeError::Stale);
            }
            if !mutation::is(Mutation::UnfencedWriters) {
                replica.fence();
            }
            let _files = replica.files.lock().await;
            if replica.phase.get() != Phase::Gone {
                self.settle(block, &replica).await?;
                self.0.recovering.borrow_mut().insert(block, recovery);
                return self.find(block).ok_or(VolumeError::NotFound);
            }
        }
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        if shelved.identity.generation >= recovery {
            return Err(VolumeError::Stale);
        }
        self.0.recovering.borrow_mut().insert(block, recovery);
        self.find(block).ok_or(VolumeError::NotFound)
    }

    /// A recovery has begun with the replica, and nobody else has gone on with it since.
    pub(crate) fn is_recovering(&self, block: BlockId) -> bool {
        let by = self.0.recovering.borrow().get(&block).copied();
        by.is_some_and(|by| self.find(block).is_some_and(|info| info.identity.generation < by))
    }

    fn check_recovery(&self, block: BlockId, recovery: Generation) -> Result<()> {
        match self.0.recovering.borrow().get(&block) {
            Some(by) if *by > recovery => Err(VolumeError::Fenced),
            _ => Ok(()),
        }
    }

    pub(crate) async fn finish_recovery(&self, block: BlockId, recovery: Generation, len: usize) -> Result<()> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_recovery(block, recovery)?;
        let mut found = None;
        if let Some(replica) = self.find_open(block) {
            if self.open_image(block).identity.generation > recovery {
                return Err(VolumeError::Stale);
            }
            replica.fence();
            drop(replica.files.lock().await);
            found = Some(replica).filter(|replica| replica.phase.get() != Phase::Gone);
        }
        let replica = match found {
            Some(replica) => replica,
            None => {
                let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
                if shelved.identity.generation == recovery && shelved.data.len() == len {
                    self.0.recovering.borrow_mut().remove(&block);
                    return Ok(());
                }
                if shelved.identity.generation >= recovery {
                    return Err(VolumeError::Stale);
                }
                if len > shelved.data.len() {
                    return Err(VolumeError::Length);
                }
                self.unfinalize(block, shelved.identity.generation).await?;
                let replica = Rc::new(Opened::new(Phase::Open, shelved.data.len()));
                self.0.open.borrow_mut().insert(block, Rc::clone(&replica));
                replica
            }
        };
        let _files = replica.files.lock().await;
        self.settle(block, &replica).await?;
        let image = self.open_image(block);
        if len > image.data.len() {
            return Err(VolumeError::Length);
        }
        if !image.can_cut(len) {
            return Err(VolumeError::Corrupt);
        }
        self.note(self.0.disk.write().await)?;
        if len < image.data.len() {
            self.on_open(block, |stored| stored.cut(len));
            // Before the generation: after a loss of power what was cut off must not be seen under the new one.
            let written = self.on_open(block, |stored| stored.written());
            self.note(self.0.disk.sync().await)?;
            self.on_open(block, |stored| stored.synced(written, false));
        }
        let identity = Identity { generation: recovery, ..image.identity };
        self.on_open(block, |stored| stored.set_header(identity, Stage::Open));
        self.put_locked(block, &replica, len).await?;
        self.0.recovering.borrow_mut().remove(&block);
        Ok(())
    }
}
