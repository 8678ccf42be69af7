//! Opening a replica again: append, and the return of a writer after its chain broke.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Kept, Stage, read_header};
use crate::index::{self, Place, Row};
use crate::inner::{Inner, lock, remove};
use crate::lookup::stored_tail;
use crate::open::{End, Files, OpenReplica, Phase};
use crate::options::Durability;
use crate::replica::Identity;
use crate::volume::Volume;
use crate::writer::Writer;
use std::fs::OpenOptions;
use std::sync::Arc;
use types::{BlockId, Generation, ReplicaState};

/// What a returning writer knows of its block.
#[derive(Clone, Copy, Debug)]
pub struct ReopenAsk {
    pub kind: ReopenKind,
    /// The generation the writer knew, and the one it goes on under. They may be equal.
    pub old: Generation,
    pub new: Generation,
    /// Bytes that were acknowledged to the writer: a replica with less is of no use to it.
    pub min_len: u64,
    /// Bytes it ever sent: a replica with more is not its own. Below `min_len`: it does not say.
    pub max_len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReopenKind {
    /// A finalized replica of `min_len` bytes is to grow.
    Append,
    /// The same asked again; the replica may be open by now.
    AppendRecovery,
    /// The chain broke in mid-stream: go on from what this node acknowledged. The replica may be finalized already, if
    /// only the last acknowledgement was lost.
    StreamingRecovery,
    /// All bytes are here, only the end is missing: the caller puts the replica next. All that was ever sent was
    /// acknowledged then; a writer that says otherwise has lost bytes on the way, and would close a block that is
    /// shorter than it believes.
    CloseRecovery,
}

impl Volume {
    /// Lets a writer go on with a replica under the generation `ask.new`. Writers of before are fenced. Of an open
    /// replica only what was acknowledged stays; see [`Writer::received`].
    pub fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Writer> {
        let inner = self.inner();
        inner.health.check()?;
        let stripe = inner.stripe(block);
        if let Some(by) = lock(&inner.recovering).get(&block).filter(|by| **by >= ask.new) {
            return Err(ReplicaError::Fenced { block, by: *by });
        }
        let replica = inner.reopen(block, ask)?;
        lock(&inner.recovering).remove(&block);
        let mut writer = Writer::new(inner, replica);
        drop(stripe);
        if ask.kind != ReopenKind::CloseRecovery && writer.keeps_synced_bytes() {
            // From now on the namespace believes nobody who has an older generation: bytes that outlive a loss of power
            // are of no use under a header that does not.
            writer.sync()?;
        }
        Ok(writer)
    }
}

impl ReopenAsk {
    /// What stays of an open replica that has `len` bytes, of which `visible` were acknowledged.
    fn kept_len(&self, block: BlockId, len: u64, visible: u64) -> Result<u64> {
        let whole = self.kind == ReopenKind::CloseRecovery;
        let kept = if whole { len } else { visible.max(self.min_len) };
        let fits = kept <= len
            && len >= self.min_len
            && (!whole || len == self.min_len && self.max_len <= self.min_len)
            && (self.max_len < self.min_len || kept <= self.max_len);
        if fits {
            return Ok(kept);
        }
        let need = format!("{} to {}, of which {visible} are acknowledged here", self.min_len, self.max_len);
        Err(ReplicaError::Length { block, have: len, need })
    }

    fn check_generation(&self, block: BlockId, have: Generation) -> Result<()> {
        if (self.old..=self.new).contains(&have) {
            return Ok(());
        }
        Err(ReplicaError::Stale { block, have, want: self.old })
    }
}

impl Inner {
    fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Arc<OpenReplica>> {
        if let Some(replica) = self.find_open(block) {
            let state = replica.state();
            ask.check_generation(block, state.identity.generation)?;
            if ask.kind == ReopenKind::Append || state.phase == Phase::Copying {
                let state = replica.info().state;
                return Err(ReplicaError::State { block, state, needed: "finalized" });
            }
            replica.fence(ask.new);
            let mut disk = replica.lock_disk();
            // The old writer may have put it while we waited for it.
            if !replica.is_gone() {
                self.note(self.spread(&replica, &mut disk))?;
                replica.settle(&mut disk)?;
                let state = replica.state();
                let kept = ask.kept_len(block, state.len, state.visible)?;
                let identity = Identity { generation: ask.new, ..state.identity };
                let outcome = replica.cut(&mut disk, kept).and_then(|()| replica.set_identity(identity, Stage::Open));
                self.note(outcome)?;
                replica.set_open();
                drop(disk);
                return Ok(replica);
            }
        }
        let row = self.index.replica(block)?.ok_or(ReplicaError::NotFound { block })?;
        ask.check_generation(block, row.generation)?;
        // All of a finalized replica was acknowledged by those below; only its writer may not have heard of it.
        let exact = matches!(ask.kind, ReopenKind::Append | ReopenKind::AppendRecovery);
        let kept = ask.kept_len(block, row.len, row.len)?;
        if kept != row.len || (exact && row.len != ask.min_len) {
            let need = format!("{} to {}", ask.min_len, ask.max_len);
            return Err(ReplicaError::Length { block, have: row.len, need });
        }
        self.note(self.unfinalize(block, &row, ask.new))
    }

    /// Turns a finalized replica into an open one under another generation. The caller holds the stripe.
    pub(crate) fn unfinalize(&self, block: BlockId, row: &Row, generation: Generation) -> Result<Arc<OpenReplica>> {
        let identity = Identity { generation, ..row.identity(block) };
        let replica = match row.place {
            Place::Files { .. } => self.take_off_shelf(block, row, identity)?,
            Place::Pack { .. } => self.unpack(block, identity)?,
        };
        lock(&self.open).insert(block, Arc::clone(&replica));
        if matches!(row.place, Place::Files { .. }) {
            self.index.change(|rows| index::set_replica(rows, block, None))?;
        }
        Ok(replica)
    }

    fn take_off_shelf(&self, block: BlockId, row: &Row, identity: Identity) -> Result<Arc<OpenReplica>> {
        let Place::Files { shelf } = row.place else { unreachable!("asked of files only") };
        let io = |op| move |source| ReplicaError::Io { op, container: shelf, source };
        let (from, to) = (self.layout.shelved_pair(shelf, block), self.layout.open_pair(block));
        let open = |path| OpenOptions::new().read(true).write(true).open(path);
        let sums = open(&from.sums).map_err(io(DiskOp::Open("checksums")))?;
        let data = open(&from.data).map_err(io(DiskOp::Open("data")))?;
        let header = read_header(&sums).map_err(io(DiskOp::Read("the header")))?;
        if header.is_none_or(|header| header.identity.block != block || header.kept.len != row.len) {
            return Err(ReplicaError::Corrupt { block, offset: 0 });
        }
        let tail = stored_tail(&sums, row).map_err(io(DiskOp::Read("checksums")))?;
        // The headers before and after this one keep the same bytes, so whichever a crash leaves will do.
        let kept = Kept { len: row.len, tail: tail.unwrap_or(0) };
        // The reverse of a put, and so are the states a crash can leave: checksums alone in open/ go back on the shelf.
        std::fs::rename(&from.sums, &to.sums).map_err(io(DiskOp::Rename("checksums off the shelf")))?;
        if let Err(error) = std::fs::rename(&from.data, &to.data) {
            let _stays_for_restore = std::fs::rename(&to.sums, &from.sums);
            return Err(io(DiskOp::Rename("data off the shelf"))(error));
        }
        let replica =
            OpenReplica::new(identity, Phase::Open, Files::pair(data, sums), End { len: row.len, tail, kept });
        replica.set_identity(identity, Stage::Open)?;
        Ok(Arc::new(replica))
    }

    /// The record stays where it is, and in the index, until the replica is put again; so a crash on the way loses
    /// nothing.
    fn unpack(&self, block: BlockId, identity: Identity) -> Result<Arc<OpenReplica>> {
        let reader = self.look_and_open(block)?.ok_or(ReplicaError::NotFound { block })?;
        assert_eq!(reader.state(), ReplicaState::Finalized, "the caller holds the stripe");
        let mut data = vec![0; reader.len() as usize];
        reader.read_at(0, &mut data)?;
        let mut sums = Vec::new();
        reader.sums(0, reader.len(), &mut sums)?;
        // Damage goes along with the checksums that show it, as that of files does: refused here, it would leave a
        // recovery without an end. "Copying" until it is whole: a start that finds it half done removes it, and the
        // record holds.
        let copy = self.create_files(identity, Stage::Copying, Phase::Copying)?;
        let outcome = self.fill(&copy, identity, &data, &sums);
        if outcome.is_err() {
            let pair = self.layout.open_pair(block);
            let _stays_for_restore = remove(&pair.data).and_then(|()| remove(&pair.sums));
        }
        outcome?;
        copy.set_open();
        copy.set_visible(data.len() as u64);
        Ok(copy)
    }

    fn fill(&self, copy: &OpenReplica, identity: Identity, data: &[u8], sums: &[u8]) -> Result<()> {
        let ticket = copy.admit();
        copy.write(ticket, 0, data, sums, false)?;
        let _left = copy.leave(ticket);
        if self.options.durability == Durability::Synced {
            copy.sync()?;
        }
        // Whether somebody had the bytes synced the record does not say; if so, they are on disk only there, and go
        // with it.
        copy.keep();
        copy.set_identity(identity, Stage::Open)
    }
}
