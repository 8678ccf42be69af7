//! The one who writes a replica.

use crate::error::Result;
use crate::header::Stage;
use crate::inner::Inner;
use crate::open::{Disk, OpenReplica, Packet, Phase};
use crate::options::Durability;
use crate::replica::Identity;
use crate::reserve::Reserve;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Writes one replica, until it is put, or until a recovery, a deletion or another writer takes it over: then every
/// call fails with [`ReplicaError::Fenced`](crate::ReplicaError::Fenced). Dropped before that, it leaves the replica
/// open for recovery or for its writer's return; the target of a copy is discarded.
#[derive(Debug)]
pub struct Writer {
    volume: Arc<Inner>,
    replica: Arc<OpenReplica>,
    ticket: u64,
    done: bool,
    /// Up to here there is room on the disk, as far as was known a megabyte ago.
    room_until: u64,
}

/// Bytes after which a writer looks again whether the disk has room. All writers together can overshoot by so much
/// each: hundreds of them by less than half of the reserve of a large disk.
const ROOM_LEN: u64 = 1 << 20;

/// Tells a replica what was acknowledged, from wherever the acknowledgements are handled.
#[derive(Clone, Debug)]
pub struct Progress(Arc<OpenReplica>, u64);

impl Progress {
    /// Readers may see the first `len` bytes: this node and all below have them. Never shrinks.
    pub fn set_visible(&self, len: u64) {
        self.0.show(self.1, len);
    }

    /// Bytes on disk.
    pub fn received(&self) -> u64 {
        self.0.state().len
    }
}

impl Writer {
    pub(crate) fn new(volume: &Arc<Inner>, replica: Arc<OpenReplica>) -> Self {
        let ticket = replica.admit();
        Self { volume: Arc::clone(volume), replica, ticket, done: false, room_until: 0 }
    }

    pub fn identity(&self) -> Identity {
        self.replica.state().identity
    }

    /// Bytes on disk.
    pub fn received(&self) -> u64 {
        self.replica.state().len
    }

    pub fn visible_len(&self) -> u64 {
        self.replica.state().visible
    }

    /// A writer had some of the bytes synced, or the replica was put once.
    pub(crate) fn keeps_synced_bytes(&self) -> bool {
        self.replica.state().kept.len > 0
    }

    pub fn progress(&self) -> Progress {
        Progress(Arc::clone(&self.replica), self.ticket)
    }

    /// Writes a packet's bytes, of which some or all may be here already:
    ///
    /// - below what is on disk: nothing happens;
    /// - from a chunk's start on, overlapping: bytes and checksums of the packet replace ours from our last chunk on;
    /// - from mid-chunk on, at most to the chunk's end, with one checksum of just these bytes: the chunk's checksum is
    ///   made anew from our bytes and these;
    /// - without checksums (`sums` empty): they are computed;
    /// - beyond what came so far: [`ReplicaError::Gap`](crate::ReplicaError::Gap).
    ///
    /// Verifies nothing but our own partial chunk: who received the packet did.
    pub fn write(&mut self, offset: u64, data: &[u8], sums: &[u8]) -> Result<()> {
        self.write_run(&[Packet { offset, data, sums }])
    }

    /// As [`Writer::write`], for packets that came together, with as few calls as can be. If it fails, some of them may
    /// be written.
    pub fn write_run(&mut self, run: &[Packet<'_>]) -> Result<()> {
        let Some(Packet { offset, .. }) = run.first().copied() else { return Ok(()) };
        let ends = run.iter().map(|packet| packet.offset.saturating_add(packet.data.len() as u64));
        self.volume.health.check()?;
        if offset >= self.room_until {
            let state = self.replica.check_ticket(self.ticket)?;
            let share = if state.phase == Phase::Copying { Reserve::Whole } else { Reserve::ButForBegun };
            self.volume.check_room(self.replica.container(), share)?;
            self.room_until = offset.saturating_add(ROOM_LEN);
        }
        // The last packet may be one that came before.
        if ends.max().is_some_and(|end| self.replica.outgrows(end)) {
            self.spread(&mut self.replica.lock_disk())?;
        }
        let writeback = self.volume.options.durability == Durability::Synced || self.volume.syncs_ends.load(Relaxed);
        self.volume.note(self.replica.write_run(self.ticket, run, writeback))?;
        self.volume.meters.written.inc_by(run.iter().map(|packet| packet.data.len() as u64).sum());
        Ok(())
    }

    /// Readers may see the first `len` bytes.
    pub fn set_visible(&self, len: u64) {
        self.replica.show(self.ticket, len);
    }

    /// Moves the replica out of a slot.
    fn spread(&self, disk: &mut Disk) -> Result<()> {
        self.replica.check_ticket(self.ticket)?;
        self.volume.note(self.volume.spread(&self.replica, disk))
    }

    /// All bytes so far survive a loss of power when this returns.
    pub fn sync(&mut self) -> Result<()> {
        let mut disk = self.replica.lock_disk();
        // Behind the lock: whoever had it may have met a sync that failed.
        self.volume.health.check()?;
        self.spread(&mut disk)?;
        let state = self.replica.check_ticket(self.ticket)?;
        let stage = if state.phase == Phase::Copying { Stage::Copying } else { Stage::Open };
        let syncs = &self.volume.meters;
        self.volume.note(syncs.sync(|| self.replica.sync_data()))?;
        self.replica.keep();
        let synced = self.replica.set_identity(state.identity, stage);
        let synced = synced.and_then(|()| syncs.sync(|| self.replica.sync_sums()));
        self.volume.note(synced)?;
        if !disk.named {
            self.volume.note(self.volume.sync_open_names(self.replica.container()))?;
            disk.named = true;
        }
        Ok(())
    }

    /// Finalizes the replica with all its bytes, which must be `len`: durable as the volume was told, recorded, found
    /// by everyone. If it fails the replica stays open.
    pub fn put(self, len: u64) -> Result<()> {
        self.finish(len, false)
    }

    /// As [`Self::put`], with the bytes on disk even if the volume promises less.
    pub fn put_synced(self, len: u64) -> Result<()> {
        self.finish(len, true)
    }

    fn finish(mut self, len: u64, synced: bool) -> Result<()> {
        self.done = true;
        let outcome = self.volume.put(&self.replica, self.ticket, len, synced);
        if outcome.is_err() {
            self.done = false;
        }
        outcome
    }

    /// Leaves the replica open, readable as far as it was received and without a writer, until one joins it under a new
    /// generation: how the copy of a replica in the making ends.
    pub fn keep(mut self) -> Result<()> {
        self.done = true;
        self.volume.keep(&self.replica, self.ticket)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.replica.leave(self.ticket) == Some(Phase::Copying) {
            // A copy that broke off is worth nothing. If it can not be removed now, the next start does.
            if let Err(error) = self.volume.discard_copy(&self.replica, self.ticket) {
                tracing::warn!(block = %self.replica.block, %error, "an unfinished copy stays until the next start");
            }
        }
    }
}
