//! Putting a replica: whole, durable and recorded from then on.
//!
//! ```text
//! files   fdatasync data → header "finalized" → fdatasync sums → mark container → rename data, sums → fsync directory → index
//! packed  bytes of open/<block> → mark container → append to the pack → fdatasync (shared) → index → remove open/<block>
//! ```
//!
//! A crash between any two steps leaves either the open replica, or both, or the finalized one; [`crate::restore`]
//! tells them apart.
//!
//! Promise: a finalized replica that is replaced goes in the last step, when its successor is durable; if that is a
//! copy, it was read back before. Until then it is found and read as ever.

use crate::batch::SmallPut;
use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Stage, sums_place};
use crate::index::{self, Place, Row};
use crate::inner::{Inner, lock, remove};
use crate::open::{Disk, OpenReplica, Phase, State};
use crate::options::Durability;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use types::BlockId;

impl Inner {
    /// Finalizes an open replica of exactly `len` bytes. `synced`: on disk even if the volume promises less.
    pub(crate) fn put(&self, replica: &Arc<OpenReplica>, ticket: u64, len: u64, synced: bool) -> Result<()> {
        self.health.check()?;
        let mut disk = replica.lock_disk();
        let state = replica.check_ticket(ticket)?;
        self.put_locked_as(replica, &mut disk, &state, len, synced)
    }

    /// As [`Self::put`], for who holds the disk and may write.
    pub(crate) fn put_locked(&self, replica: &OpenReplica, disk: &mut Disk, state: &State, len: u64) -> Result<()> {
        self.put_locked_as(replica, disk, state, len, false)
    }

    fn put_locked_as(
        &self,
        replica: &OpenReplica,
        disk: &mut Disk,
        state: &State,
        len: u64,
        synced: bool,
    ) -> Result<()> {
        if state.len != len {
            let need = format!("exactly {len} to be put");
            return Err(ReplicaError::Length { block: replica.block, have: state.len, need });
        }
        // What a writer once had synced must not be at stake again because it ends: its bytes move, or get another
        // header.
        let synced = synced || self.options.durability == Durability::Synced || state.kept.len > 0;
        let replaces = self.index.replica(replica.block)?.is_some();
        let read_back = replaces && state.phase == Phase::Copying;
        // Nor what goes for it.
        let synced = synced || read_back;
        let outcome = if len <= self.options.pack_len_max {
            self.put_packed(replica, state, synced, read_back)
        } else {
            self.spread(replica, disk).and_then(|()| self.put_files(replica, state, synced, read_back))
        };
        self.note(outcome)?;
        if len <= self.options.pack_len_max {
            // What stays behind by a crash, or by an error here, the next start removes.
            if let Err(error) = self.remove_open_files(replica) {
                tracing::warn!(block = %replica.block, %error, "files of a packed replica stay until the next start");
            }
        }
        // Last, so that a reader finds the replica in one of the two places at any moment, and nobody makes new files
        // under these names before ours are gone.
        lock(&self.open).remove(&replica.block);
        replica.set_gone();
        Ok(())
    }

    fn put_files(&self, replica: &OpenReplica, state: &State, synced: bool, read_back: bool) -> Result<()> {
        let (block, shelf) = (replica.block, state.identity.shelf());
        self.syncs_ends.store(synced, Relaxed);
        if synced {
            self.meters.sync(|| replica.sync_data())?;
        }
        if read_back {
            // Before the header: should it outlive the checksums, half a copy would stand before a replica that is
            // whole.
            self.meters.sync(|| replica.sync_sums())?;
        }
        replica.keep();
        replica.set_identity(state.identity, Stage::Finalized)?;
        if synced {
            self.meters.sync(|| replica.sync_sums())?;
        }
        if read_back {
            self.reader_of_open(replica, state).verify()?;
        }
        let mark = if synced { self.ahead.mark_durably(shelf) } else { self.ahead.mark(shelf) };
        let _pending = mark?;
        // Behind the mark, under which the directory stays.
        let syncs = self.shelf(shelf)?;
        let dirs = if synced { Some(self.open_shelf(shelf)?) } else { None };
        let (from, to) = (self.layout.open_pair(block), self.layout.shelved_pair(shelf, block));
        let replaces = to.data.exists();
        replica.set_landing(true);
        // The data first: checksums that say "finalized" in open/ are then the sign of a put to be ended.
        if let Err(error) = std::fs::rename(&from.data, &to.data) {
            replica.set_landing(false);
            return Err(replica.io(DiskOp::Rename("data onto the shelf"))(error));
        }
        if let Err(error) = std::fs::rename(&from.sums, &to.sums) {
            if replaces {
                // The data of the replica before are gone. Nothing is touched any more: the next start ends this put.
                self.health.fail(
                    format!("half of a replica was shelved: {error}; restart the datanode, which ends it"),
                    false,
                );
            } else {
                // A full disk, most likely: the replica stays open, so its data go back where an open replica has them.
                let _stays_for_restore = std::fs::rename(&to.data, &from.data);
                replica.set_landing(false);
            }
            return Err(replica.io(DiskOp::Rename("checksums onto the shelf"))(error));
        }
        if let Some(dirs) = dirs {
            self.sync_open_shelf(shelf, &dirs, &syncs)?;
        }
        self.record(block, Row::new(state.identity, state.len, Place::Files { shelf }))
    }

    fn put_packed(&self, replica: &OpenReplica, state: &State, synced: bool, read_back: bool) -> Result<()> {
        let spec = state.identity.checksum;
        let files = replica.files();
        let mut data = vec![0; state.len as usize];
        files.read_data(&mut data, 0).map_err(replica.io(DiskOp::Read("data")))?;
        let mut sums = vec![0; spec.sums_len(state.len) as usize];
        files.sums.read_exact_at(&mut sums, sums_place(0)).map_err(replica.io(DiskOp::Read("checksums")))?;
        if read_back && spec.verify(&data, &sums).is_err() {
            return Err(ReplicaError::Corrupt { block: replica.block, offset: 0 });
        }
        let put = SmallPut { identity: state.identity, data: &data, sums: &sums };
        self.put_records(state.identity.shelf(), &[&put], synced, read_back)
    }

    /// Writes a replica's row, and removes what the row before it named.
    fn record(&self, block: BlockId, row: Row) -> Result<()> {
        let old = self.index.change(|rows| index::set_replica(rows, block, Some(&row)))?;
        match old {
            Some(old) if old.place != row.place => self.remove_bytes(block, old.place),
            _ => Ok(()),
        }
    }

    /// Removes an open replica that nobody writes. The caller holds the stripe.
    pub(crate) fn discard(&self, replica: &OpenReplica) -> Result<()> {
        self.note(self.remove_open_files(replica))?;
        lock(&self.open).remove(&replica.block);
        replica.set_gone();
        Ok(())
    }

    /// Removes what is left of a copy whose writer went away, unless somebody else took it over. Not on a volume that
    /// failed: half of it may be shelved already, and the next start knows what to do with it.
    pub(crate) fn discard_copy(&self, replica: &OpenReplica, ticket: u64) -> Result<()> {
        self.health.check()?;
        let _stripe = self.stripe(replica.block);
        match replica.leave(ticket) {
            Some(Phase::Copying) => self.discard(replica),
            _ => Ok(()),
        }
    }

    fn remove_open_files(&self, replica: &OpenReplica) -> Result<()> {
        let io = replica.io(DiskOp::Remove("an open replica"));
        if let Some(slot) = replica.files().slot {
            return slot.clear().map_err(io);
        }
        let pair = self.layout.open_pair(replica.block);
        remove(&pair.data).and_then(|()| remove(&pair.sums)).map_err(io)
    }

    /// The copy of an open replica has arrived: it is one more open replica now.
    pub(crate) fn keep(&self, replica: &OpenReplica, ticket: u64) -> Result<()> {
        let _disk = replica.lock_disk();
        let state = replica.check_ticket(ticket)?;
        self.note(replica.set_identity(state.identity, Stage::Open))?;
        if state.phase == Phase::Copying {
            replica.set_open();
        }
        replica.set_visible(state.len);
        let _left = replica.leave(ticket);
        Ok(())
    }
}
