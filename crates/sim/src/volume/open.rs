//! Replicas begun, and gone on with by a writer who returns.

use super::{Opened, PACK_LEN_MAX, Phase, Result, Volume, VolumeError, Writer};
use crate::platter::{Identity, Stage, Stored};
use std::rc::Rc;
use types::{BlockId, Generation};

/// What a returning writer knows; see `container::ReopenAsk`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReopenAsk {
    pub(crate) close: bool,
    pub(crate) old: Generation,
    pub(crate) new: Generation,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Volume {
    /// A recovery shuts out writers up to its generation.
    pub(super) fn check_not_recovering(&self, block: BlockId, new: Generation) -> Result<()> {
        match self.0.recovering.borrow().get(&block) {
            Some(by) if *by >= new => Err(VolumeError::Fenced),
            _ => Ok(()),
        }
    }

    pub(crate) async fn create(&self, identity: Identity) -> Result<Writer> {
        self.check_health()?;
        let block = identity.block;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, identity.generation)?;
        if let Some(open) = self.find_open(block) {
            if self.open_image(block).identity.generation >= identity.generation {
                return Err(VolumeError::Exists);
            }
            open.fence();
            drop(open.files.lock().await);
            if open.phase.get() != Phase::Gone {
                self.discard(block, &open);
            }
        }
        if let Some(shelved) = self.shelved(block) {
            if shelved.identity.generation >= identity.generation {
                return Err(VolumeError::Exists);
            }
            self.0.platter.borrow_mut().remove_shelved(block);
        }
        self.note(self.0.disk.write().await)?;
        self.0.platter.borrow_mut().open.insert(block, Stored::new(identity, Stage::Open));
        self.0.recovering.borrow_mut().remove(&block);
        Ok(self.admit(block, Phase::Open, 0))
    }

    fn admit(&self, block: BlockId, phase: Phase, visible: usize) -> Writer {
        let replica = Rc::new(Opened::new(phase, visible));
        self.0.open.borrow_mut().insert(block, Rc::clone(&replica));
        Writer::new(self.clone(), block, replica)
    }

    pub(super) fn discard(&self, block: BlockId, replica: &Opened) {
        self.0.platter.borrow_mut().remove_open(block);
        self.0.open.borrow_mut().remove(&block);
        replica.phase.set(Phase::Gone);
    }

    pub(crate) async fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Writer> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, ask.new)?;
        let fits = |generation: Generation| (ask.old..=ask.new).contains(&generation);
        if let Some(replica) = self.find_open(block) {
            if !fits(self.open_image(block).identity.generation) {
                return Err(VolumeError::Stale);
            }
            replica.fence();
            let files = replica.files.lock().await;
            if replica.phase.get() != Phase::Gone {
                self.settle(block, &replica).await?;
                let image = self.open_image(block);
                let kept = ask.kept_len(image.data.len(), replica.visible.get())?;
                if !image.can_cut(kept) {
                    return Err(VolumeError::Corrupt);
                }
                self.note(self.0.disk.write().await)?;
                self.on_open(block, |stored| {
                    stored.cut(kept);
                    stored.set_header(Identity { generation: ask.new, ..image.identity }, Stage::Open);
                });
                replica.visible.set(replica.visible.get().min(kept));
                replica.phase.set(Phase::Open);
                drop(files);
                self.0.recovering.borrow_mut().remove(&block);
                let writer = Writer::new(self.clone(), block, replica);
                writer.sync_if_kept(ask).await?;
                return Ok(writer);
            }
        }
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        if !fits(shelved.identity.generation) {
            return Err(VolumeError::Stale);
        }
        let len = shelved.data.len();
        if ask.kept_len(len, len)? != len {
            return Err(VolumeError::Length);
        }
        self.unfinalize(block, ask.new).await?;
        self.0.recovering.borrow_mut().remove(&block);
        let writer = self.admit(block, Phase::Open, len);
        writer.sync_if_kept(ask).await?;
        Ok(writer)
    }

    /// A finalized replica becomes an open one under another generation.
    pub(super) async fn unfinalize(&self, block: BlockId, generation: Generation) -> Result<()> {
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        self.0.disk.read().await;
        self.note(self.0.disk.write().await)?;
        let identity = Identity { generation, ..shelved.identity };
        if shelved.data.len() <= PACK_LEN_MAX {
            // The record stays until the replica is put again.
            let mut copy = Stored::new(identity, Stage::Copying);
            copy.write_data(0, &shelved.data);
            copy.write_sums(0, &shelved.sums);
            self.0.platter.borrow_mut().open.insert(block, copy);
            if self.0.synced {
                let written = self.on_open(block, |stored| stored.written());
                self.note(self.0.disk.sync().await)?;
                self.on_open(block, |stored| stored.synced(written, false));
            }
            self.on_open(block, |stored| {
                // If somebody had it synced, that is nowhere but in the record, which goes with the put.
                stored.keep();
                stored.set_header(identity, Stage::Open);
            });
        } else {
            let mut platter = self.0.platter.borrow_mut();
            let mut stored = platter.shelf.remove(&block).ok_or(VolumeError::NotFound)?;
            stored.set_header(identity, Stage::Open);
            platter.open.insert(block, stored);
        }
        Ok(())
    }
}

impl ReopenAsk {
    fn kept_len(&self, len: usize, visible: usize) -> Result<usize> {
        let kept = if self.close { len } else { visible.max(self.min) };
        let fits = kept <= len
            && len >= self.min
            && (!self.close || len == self.min)
            && (self.max < self.min || kept <= self.max);
        if fits { Ok(kept) } else { Err(VolumeError::Length) }
    }
}
