//! Giving back the space of small replicas that were deleted.
//!
//! ```text
//! pack   ┌──────┬──────┬─────────┬──────┬───────┬───── … ─────┬──────┐
//!        │ dead │ live │  dead   │ dead │ live  │             │ tail │        a stretch of which less than half lives:
//!        └──────┴──┬───┴─────────┴──────┴───┬───┴───── … ─────┴──────┘
//!                  └───── copied, synced ───┴─────────────────▶ behind the tail, rows changed,
//!        ┌──────────────── hole ────────────────┬───── … ───┬──────┬──────┐
//!        └──────────────────────────────────────┴───── … ───┴──────┴──────┘   then the stretch becomes a hole
//! ```
//!
//! Promise: a replica is readable all the while. The copies are on disk before the stretch goes, whatever the volume
//! promises for new replicas, so a crash leaves one copy at least; if it leaves two, they are the same, and a start
//! that finds both takes one.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::index::{self, ContainerRow, Place, Row};
use crate::inner::{Inner, lock};
use crate::pack::{Pack, Stretch};
use crate::record::{RecordHeader, Records};
use std::io::ErrorKind;
use std::sync::Arc;
use types::BlockId;

/// A pack is gone through when at least so much of it died, and a quarter of what it takes: then a way through it,
/// which reads every header, is worth it.
const DEAD_LEN_MIN: u64 = 8 << 20;
const DEAD_SHARE: u64 = 4;
/// What is looked at, and moved or not, at a time.
const STRETCH_LEN: u64 = 4 << 20;
/// Stretches of one step, so that whoever runs it has time for other things.
const STRETCH_COUNT: usize = 16;

/// A copy that is written but not known yet.
struct Moved {
    block: BlockId,
    header: RecordHeader,
    from: Place,
    to: u64,
}

impl Inner {
    /// One step in one pack that needs it.
    pub(crate) fn compact(&self) {
        if self.health.check().is_err() {
            return;
        }
        let packs: Vec<Arc<Pack>> = lock(&self.packs).values().cloned().collect();
        let Some(pack) = packs.into_iter().find(|pack| lock(&pack.sweep).at.is_some() || is_due(pack)) else { return };
        if let Err(error) = self.note(self.sweep(&pack)) {
            tracing::warn!(container = %pack.container, %error, "the space of deleted replicas was not given back");
        }
    }

    /// Writes down how much has died, for the next start. To be called before the index is flushed.
    pub(crate) fn note_dead(&self) -> Result<()> {
        let packs: Vec<Arc<Pack>> = lock(&self.packs).values().cloned().collect();
        for pack in packs {
            if self.index.dead_len(pack.container)? != pack.dead_len() {
                self.index.set_dead_len(pack.container, pack.dead_len())?;
            }
        }
        Ok(())
    }

    fn sweep(&self, pack: &Arc<Pack>) -> Result<()> {
        let container = pack.container;
        let io = |source| ReplicaError::Io { op: DiskOp::Read("through the pack"), container, source };
        let mut sweep = lock(&pack.sweep);
        let mut at = sweep.at.take().unwrap_or_else(|| {
            pack.set_dead_len(0);
            0
        });
        for _ in 0..STRETCH_COUNT {
            // The last one is still being filled.
            let stretch = pack.stretch(at, STRETCH_LEN).map_err(io)?;
            let Some(stretch) = stretch.filter(|stretch| stretch.to - stretch.from >= STRETCH_LEN) else {
                return Ok(());
            };
            at = stretch.to;
            let live_len: u64 = stretch.live.iter().map(|(_, header)| header.record_len()).sum();
            if !stretch.damaged && live_len <= (stretch.to - stretch.from) / 2 {
                self.move_stretch(pack, &stretch)?;
            }
        }
        sweep.at = Some(at);
        Ok(())
    }

    fn move_stretch(&self, pack: &Arc<Pack>, stretch: &Stretch) -> Result<()> {
        let container = pack.container;
        let io = |op| move |source| ReplicaError::Io { op, container, source };
        let _pending = self.ahead.mark_durably(container)?;
        let mut moved = Vec::new();
        let copied = stretch.live.iter().try_for_each(|(offset, header)| {
            moved.extend(self.copy_record(pack, *offset, header)?);
            Ok(())
        });
        let synced = copied.and_then(|()| self.meters.sync(|| pack.sync()).map_err(io(DiskOp::Sync("the pack"))));
        if let Err(error) = synced {
            for moved in moved {
                let _known = pack.landed(moved.to);
                let _stays_unnamed = pack.bury(moved.to);
            }
            // A damaged record is for the scrubber; its neighbours stay where they are.
            return if matches!(error, ReplicaError::Corrupt { .. }) { Ok(()) } else { Err(error) };
        }
        for moved in moved {
            self.change_place(pack, &moved)?;
        }
        match pack.clear(stretch.from, stretch.to) {
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::debug!(%container, "a stretch of the pack is still read; it goes the next time");
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            Err(error) => Err(io(DiskOp::Cut("a hole into the pack"))(error)),
        }
    }

    /// Writes the record once more behind the tail, if it is still the replica. `None`: it is not.
    fn copy_record(&self, pack: &Arc<Pack>, offset: u64, header: &RecordHeader) -> Result<Option<Moved>> {
        let (block, shelf) = (header.identity.block, pack.container);
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let from = Place::Pack { shelf, offset };
        let _stripe = self.stripe(block);
        if self.index.replica(block)?.is_none_or(|row| row.place != from) {
            return Ok(None);
        }
        let body = pack.body(offset, header).map_err(io(DiskOp::Read("a record")))?;
        let body = body.ok_or(ReplicaError::Corrupt { block, offset: 0 })?;
        let (sums, data) = body.split_at(header.sums_len() as usize);
        let mut records = Records::default();
        records.push(header.identity, data, sums);
        let to = pack.append_all(&mut records).map_err(io(DiskOp::Write("to the pack")))?;
        Ok(to.map(|to| Moved { block, header: *header, from, to }))
    }

    /// The copy is the replica from now on, unless that was deleted or replaced meanwhile.
    fn change_place(&self, pack: &Arc<Pack>, moved: &Moved) -> Result<()> {
        let (block, shelf) = (moved.block, pack.container);
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let _stripe = self.stripe(block);
        let row = self.index.change(|rows| {
            let row = index::replica(rows, block)?.filter(|row| row.place == moved.from);
            if let Some(row) = row {
                let place = Place::Pack { shelf, offset: moved.to };
                index::set_replica(rows, block, Some(&Row { place, ..row }))?;
            }
            let known = pack.landed(moved.to);
            let container = index::read_container(rows, shelf)?;
            index::write_container(rows, shelf, ContainerRow { pack_known: known, ..container })?;
            Ok(row)
        })?;
        match row {
            // Somebody told whose it is while it was copied.
            Some(row) if row.identity(block) != moved.header.identity => {
                pack.rename(moved.to, row.identity(block)).map_err(io(DiskOp::Write("a record's owner")))
            }
            Some(_) => Ok(()),
            None => pack.bury(moved.to).map_err(io(DiskOp::Write("over a record's mark"))),
        }
    }
}

fn is_due(pack: &Pack) -> bool {
    let dead_len = pack.dead_len();
    dead_len >= DEAD_LEN_MIN
        && io::file::allocated_len(&pack.file).is_ok_and(|allocated| dead_len >= allocated / DEAD_SHARE)
}
