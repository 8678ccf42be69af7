//! Deleting replicas: rows first, then bytes, and their space is back.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::index::{self, Place};
use crate::inner::{Inner, lock, remove};
use crate::open::Phase;
use crate::pack::Pack;
use std::sync::Arc;
use types::{BlockId, Generation};

impl Inner {
    pub(crate) fn delete(&self, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let _stripe = self.stripe(block);
        let mut deleted = false;
        if let Some(open) = self.find_open(block) {
            let state = open.state();
            if state.identity.generation <= generation_at_most {
                open.fence(generation_at_most);
                // If it was put while we waited, the row below tells.
                if !open.is_gone() {
                    self.discard(&open)?;
                    deleted = true;
                }
            } else if state.phase != Phase::Copying {
                return Ok(false);
            }
        }
        match self.index.replica(block)? {
            Some(row) if row.generation <= generation_at_most => {
                self.remove_row(block)?;
                deleted = true;
            }
            Some(_) => {}
            None => self.remove_stray(block)?,
        }
        if deleted {
            lock(&self.recovering).remove(&block);
        }
        Ok(deleted)
    }

    /// Removes what damage has left of a replica that was not fit to be served: one file without the other, or with a
    /// broken header. It had stayed for someone to look at; now no file owns the block any more. The caller holds the
    /// stripe, and knows that the index has no such replica; who writes one has it among the open ones.
    fn remove_stray(&self, block: BlockId) -> Result<()> {
        let shelf = block.born_in();
        let pair = self.layout.shelved_pair(shelf, block);
        if self.find_open(block).is_some() || !(pair.data.exists() || pair.sums.exists()) {
            return Ok(());
        }
        tracing::info!(%block, container = %shelf, "the rest of a damaged replica goes");
        self.remove_bytes(block, Place::Files { shelf })
    }

    /// Removes a finalized replica: row first, then bytes. The caller holds the stripe.
    pub(crate) fn remove_row(&self, block: BlockId) -> Result<()> {
        let Some(row) = self.index.replica(block)? else { return Ok(()) };
        let shelf = row.place.shelf();
        let _pending = self.ahead.mark_deletion(shelf)?;
        match self.index.change(|rows| index::set_replica(rows, block, None))? {
            Some(row) => self.note(self.remove_bytes(block, row.place)),
            None => Ok(()),
        }
    }

    /// Gives the space of a replica back that no row names any more.
    pub(crate) fn remove_bytes(&self, block: BlockId, place: Place) -> Result<()> {
        let io = |op, container| move |source| ReplicaError::Io { op, container, source };
        match place {
            Place::Files { shelf } => {
                let pair = self.layout.shelved_pair(shelf, block);
                // The data first: checksums alone are recognised as the rest of a deletion.
                remove(&pair.data).and_then(|()| remove(&pair.sums)).map_err(io(DiskOp::Remove("a replica"), shelf))
            }
            Place::Pack { shelf, offset } => {
                let Some(pack) = self.pack(shelf, false)? else { return Ok(()) };
                pack.bury(offset).map_err(io(DiskOp::Write("over a record's mark"), shelf))?;
                self.remove_pack_if_empty(&pack)
            }
        }
    }

    /// A pack of which not all is in the index yet stays, too: after a crash files are taken in before their pack is
    /// read.
    fn remove_pack_if_empty(&self, pack: &Arc<Pack>) -> Result<()> {
        let shelf = pack.container;
        if self.index.container(shelf)?.pack_live_count > 0 {
            return Ok(());
        }
        let removed = self.index.change(|rows| {
            let row = index::read_container(rows, shelf)?;
            if row.pack_live_count > 0 || row.pack_known < pack.end() {
                return Ok(false);
            }
            pack.remove_if_idle(|| remove(&self.layout.pack(shelf)))
                .map_err(|error| types::rows::RowsError { op: "remove an empty pack", reason: error.to_string() })
        })?;
        if removed {
            self.drop_removed_pack(pack);
        }
        Ok(())
    }
}
