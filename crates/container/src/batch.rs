//! Putting small replicas in one step, all that came at the moment together.
//!
//! ```text
//! check each → mark containers → one append a pack → one fdatasync a pack → one change of the index
//! ```
//!
//! Promise: what [`Volume::put_batch`] says of one replica does not depend on the others, but for the disk they share.
//! A replica that is here already, with the same generation and the same checksums, is put: so whoever lost an answer
//! may ask again.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::index::{self, ContainerRow, Place, Row};
use crate::inner::Inner;
use crate::open::Phase;
use crate::options::Durability;
use crate::pack::Pack;
use crate::record::Records;
use crate::replica::Identity;
use crate::reserve::Reserve;
use crate::room::Room;
use crate::volume::Volume;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::rows::RowsError;
use types::{BlockId, ContainerId, ReplicaState};

/// A whole small replica; `sums` cover `data` chunk by chunk.
#[derive(Clone, Copy, Debug)]
pub struct SmallPut<'a> {
    pub identity: Identity,
    pub data: &'a [u8],
    pub sums: &'a [u8],
}

impl Volume {
    /// Puts a small replica in one step: no open replica, no files of its own.
    /// A length above the volume's `pack_len_max` is refused: such a replica is streamed.
    pub fn put_small(&self, identity: Identity, data: &[u8], sums: &[u8]) -> Result<()> {
        let put = SmallPut { identity, data, sums };
        self.put_batch(&[put], false).pop().expect("one put, one outcome")
    }

    /// As [`Volume::put_small`], for several at once: one write and one sync for all that share a pack. `synced`: they
    /// are to be on disk even if the volume promises less.
    pub fn put_batch(&self, puts: &[SmallPut<'_>], synced: bool) -> Vec<Result<()>> {
        let inner = self.inner();
        let synced = synced || inner.options.durability == Durability::Synced;
        let mut outcomes: Vec<Option<Result<()>>> = puts.iter().map(|_| None).collect();
        // A block that comes twice is put by its first, and found by its second.
        while outcomes.iter().any(Option::is_none) {
            let mut seen = HashSet::new();
            let waiting = (0..puts.len()).filter(|at| outcomes[*at].is_none());
            let round: Vec<usize> = waiting.filter(|at| seen.insert(puts[*at].identity.block)).collect();
            let these: Vec<&SmallPut<'_>> = round.iter().map(|at| &puts[*at]).collect();
            for (at, outcome) in round.iter().zip(inner.put_distinct(&these, synced)) {
                outcomes[*at] = Some(outcome);
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Puts a whole replica of any length: a small one as [`Volume::put_batch`] does, a longer one in files of its own.
    pub fn put_whole(&self, put: &SmallPut<'_>, synced: bool) -> Result<()> {
        let (block, len) = (put.identity.block, put.data.len() as u64);
        if self.is_small(len) {
            return self.put_batch(&[*put], synced).pop().expect("one put, one outcome");
        }
        let mut writer = match self.inner().create(put.identity, Phase::Open, Room::First) {
            Err(ReplicaError::Exists { .. }) if self.inner().is_here(put)? => return Ok(()),
            writer => writer?,
        };
        let written = writer.write(0, put.data, put.sums);
        let synced = written.and_then(|()| if synced { writer.sync() } else { Ok(()) });
        let outcome = synced.and_then(|()| writer.put(len));
        if outcome.is_err() {
            // Nobody was promised it, and nobody comes back to it.
            let _stays_open = self.delete(block, put.identity.generation);
        }
        outcome
    }

    /// True for replicas that [`Volume::put_batch`] takes.
    pub fn is_small(&self, len: u64) -> bool {
        len <= self.inner().options.pack_len_max
    }
}

impl Inner {
    fn put_distinct(&self, puts: &[&SmallPut<'_>], synced: bool) -> Vec<Result<()>> {
        let _stripes = self.stripes(puts.iter().map(|put| put.identity.block));
        let mut outcomes: Vec<Option<Result<()>>> = puts.iter().map(|put| self.admit(put).transpose()).collect();
        let mut by_shelf: BTreeMap<ContainerId, Vec<usize>> = BTreeMap::new();
        for (at, _) in outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_none()) {
            by_shelf.entry(puts[at].identity.shelf()).or_default().push(at);
        }
        for (shelf, places) in by_shelf {
            let these: Vec<&SmallPut<'_>> = places.iter().map(|at| puts[*at]).collect();
            let outcome = self.note(self.put_records(shelf, &these, synced, false));
            for at in places {
                outcomes[at] = Some(outcome.as_ref().map(|_| ()).map_err(again));
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// `Some`: nothing is to be written, it is here already. The caller holds the stripe.
    fn admit(&self, put: &SmallPut<'_>) -> Result<Option<()>> {
        let SmallPut { identity, data, sums } = put;
        let (block, len) = (identity.block, data.len() as u64);
        self.health.check()?;
        if len > self.options.pack_len_max {
            let need = format!("at most {}", self.options.pack_len_max);
            return Err(ReplicaError::Length { block, have: len, need });
        }
        if sums.len() as u64 != identity.checksum.sums_len(len) {
            let reason = format!("{} bytes of checksums", sums.len());
            return Err(ReplicaError::Packet { block, offset: 0, reason });
        }
        self.check_room(identity.shelf(), Reserve::Whole)?;
        self.check_fence(*identity, false)?;
        match self.make_room(*identity, Room::First) {
            Err(ReplicaError::Exists { .. }) if self.is_here(put)? => Ok(Some(())),
            outcome => outcome.map(|()| None),
        }
    }

    fn is_here(&self, put: &SmallPut<'_>) -> Result<bool> {
        let Some(have) = self.look_and_open(put.identity.block)? else { return Ok(false) };
        let same = have.state() == ReplicaState::Finalized
            && have.identity().generation == put.identity.generation
            && have.identity().checksum == put.identity.checksum
            && have.len() == put.data.len() as u64;
        let mut sums = Vec::new();
        if same {
            have.sums(0, have.len(), &mut sums)?;
        }
        Ok(same && sums == put.sums)
    }

    /// Writes the records behind each other into the container's pack, and makes them known. All or none. The caller
    /// holds the blocks' stripes or disks.
    pub(crate) fn put_records(
        &self,
        shelf: ContainerId,
        puts: &[&SmallPut<'_>],
        synced: bool,
        read_back: bool,
    ) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let mut records = Records::default();
        let starts: Vec<u64> = puts.iter().map(|put| records.push(put.identity, put.data, put.sums)).collect();
        let mark = if synced { self.ahead.mark_durably(shelf) } else { self.ahead.mark(shelf) };
        let _pending = mark?;
        let (pack, first) = loop {
            // Every second try at least meets a pack that was not just removed for being empty.
            let Some(pack) = self.pack(shelf, true)? else { continue };
            match pack.append_all(&mut records).map_err(io(DiskOp::Write("to the pack")))? {
                Some(first) => break (pack, first),
                None => self.drop_removed_pack(&pack),
            }
        };
        self.meters.written.inc_by(puts.iter().map(|put| put.data.len() as u64).sum());
        let durable = if synced { self.sync_pack(&pack) } else { Ok(()) };
        let written = durable.and_then(|()| {
            let reads = |(put, start): (&&SmallPut<'_>, &u64)| match pack.reads(first + start) {
                Ok(true) => Ok(()),
                Ok(false) => Err(ReplicaError::Corrupt { block: put.identity.block, offset: 0 }),
                Err(error) => Err(io(DiskOp::Read("a record back"))(error)),
            };
            if read_back { puts.iter().zip(&starts).try_for_each(reads) } else { Ok(()) }
        });
        if let Err(error) = written {
            // Nobody was promised these records; they should not turn up again.
            for start in starts {
                let _known = pack.landed(first + start);
                let _stays_unnamed = pack.bury(first + start);
            }
            return Err(error);
        }
        let rows = puts.iter().zip(&starts).map(|(put, start)| {
            let place = Place::Pack { shelf, offset: first + start };
            (put.identity.block, Row::new(put.identity, put.data.len() as u64, place))
        });
        self.record_all(&pack, rows.collect())
    }

    /// Everything in the pack so far survives a loss of power when this returns.
    fn sync_pack(&self, pack: &Pack) -> Result<()> {
        let shelf = pack.container;
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        self.meters.sync(|| pack.sync()).map_err(io(DiskOp::Sync("the pack")))?;
        // A volume that promises less has not made the names above it durable.
        if self.options.durability != Durability::Synced && !pack.named.load(Ordering::Acquire) {
            self.sync_open_shelf(shelf, &self.open_shelf(shelf)?, &*self.shelf(shelf)?)?;
            pack.named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Writes the rows of new records, and removes what the rows before them named.
    fn record_all(&self, pack: &Arc<Pack>, fresh: Vec<(BlockId, Row)>) -> Result<()> {
        let shelf = pack.container;
        let old = self.index.change(|rows| {
            let mut old = Vec::new();
            for (block, row) in &fresh {
                if let Some(before) = index::set_replica(rows, *block, Some(row))? {
                    old.push((*block, before));
                }
            }
            let mut known = 0;
            for (_, row) in &fresh {
                if let Place::Pack { offset, .. } = row.place {
                    known = pack.landed(offset);
                }
            }
            let container = index::read_container(rows, shelf)?;
            index::write_container(rows, shelf, ContainerRow { pack_known: known, ..container })?;
            Ok(old)
        })?;
        for (block, before) in old {
            self.remove_bytes(block, before.place)?;
        }
        Ok(())
    }
}

/// The error once more, for the next one who shared what failed.
fn again(error: &ReplicaError) -> ReplicaError {
    match error {
        ReplicaError::Io { op, container, source } => {
            let source = match source.raw_os_error() {
                Some(code) => std::io::Error::from_raw_os_error(code),
                None => std::io::Error::new(source.kind(), source.to_string()),
            };
            ReplicaError::Io { op: *op, container: *container, source }
        }
        ReplicaError::Index(RowsError { op, reason }) => ReplicaError::Index(RowsError { op, reason: reason.clone() }),
        other => ReplicaError::VolumeFailed { reason: other.to_string() },
    }
}
