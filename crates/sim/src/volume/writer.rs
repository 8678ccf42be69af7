//! Who writes a replica, until another has its ticket.

use super::{Opened, Phase, ReopenAsk, Result, Volume, VolumeError};
use std::rc::Rc;
use types::BlockId;

pub(crate) struct Writer {
    volume: Volume,
    block: BlockId,
    replica: Rc<Opened>,
    ticket: u64,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.replica.ticket.get() == self.ticket {
            self.replica.has_writer.set(false);
        }
    }
}

impl Writer {
    /// Whoever wrote before is shut out.
    pub(super) fn new(volume: Volume, block: BlockId, replica: Rc<Opened>) -> Self {
        Self { volume, block, ticket: replica.admit(), replica }
    }

    pub(crate) fn received(&self) -> usize {
        self.volume.0.platter.borrow().open.get(&self.block).map_or(0, |stored| stored.image().data.len())
    }

    fn check_ticket(&self) -> Result<()> {
        let mine = self.replica.ticket.get() == self.ticket && self.replica.phase.get() != Phase::Gone;
        if mine { Ok(()) } else { Err(VolumeError::Fenced) }
    }

    /// Packets begin at a chunk's start, or inside our partial last chunk and then end with it or before.
    pub(crate) async fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let volume = &self.volume;
        volume.check_health()?;
        let _files = self.replica.files.lock().await;
        volume.note(volume.0.disk.write().await)?;
        self.check_ticket()?;
        let image = volume.open_image(self.block);
        let len = image.data.len();
        if offset > len {
            return Err(VolumeError::Gap);
        }
        let end = offset + data.len();
        if end <= len {
            return Ok(());
        }
        let chunk = crate::platter::SPEC.chunk_len as usize;
        let boundary = len - len % chunk;
        if !image.data[boundary..].is_empty()
            && image.sums.get(boundary / chunk) != Some(&crate::platter::SPEC.kind.of(&image.data[boundary..]))
        {
            return Err(VolumeError::Corrupt);
        }
        let fresh = &data[len - offset..];
        volume.check_room(fresh.len())?;
        let mut whole = image.data[boundary..].to_vec();
        whole.extend_from_slice(fresh);
        volume.on_open(self.block, |stored| stored.write_data(len, fresh));
        if volume.0.sim.one_in(64) {
            // A moment in which `kill -9` finds bytes without their checksum.
            volume.0.sim.sleep(std::time::Duration::from_micros(30)).await;
        }
        volume.on_open(self.block, |stored| stored.write_sums(boundary / chunk, &crate::platter::sums_of(&whole)));
        Ok(())
    }

    pub(crate) fn show(&self, len: usize) {
        if self.replica.ticket.get() == self.ticket {
            self.replica.visible.set(self.replica.visible.get().max(len));
        }
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        let volume = &self.volume;
        let _files = self.replica.files.lock().await;
        self.check_ticket()?;
        if volume.forgets_sync() {
            return Ok(());
        }
        volume.sync_data(self.block).await?;
        let written = volume.on_open(self.block, |stored| {
            stored.keep();
            stored.written()
        });
        volume.sync_open(self.block).await?;
        volume.on_open(self.block, |stored| stored.synced(written, true));
        Ok(())
    }

    /// The new generation must outlive what the old one was synced under.
    pub(super) async fn sync_if_kept(&self, ask: ReopenAsk) -> Result<()> {
        if ask.close || self.volume.open_image(self.block).kept.0 == 0 { Ok(()) } else { self.sync().await }
    }

    pub(crate) async fn put(&self, len: usize) -> Result<()> {
        self.volume.check_health()?;
        let _files = self.replica.files.lock().await;
        self.check_ticket()?;
        self.volume.put_locked(self.block, &self.replica, len).await
    }
}
