//! Finding a replica and opening it for reading, while it may be on its way from one place to another.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{SumsHeader, sums_place};
use crate::index::{self, Place, Row};
use crate::inner::Inner;
use crate::open::{OpenReplica, Phase, State};
use crate::reader::{Hold, Reader};
use crate::record::RecordHeader;
use crate::replica::ReplicaInfo;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use types::{BlockId, ChecksumKind, ChecksumSpec, Generation, ReplicaState};

impl Inner {
    pub(crate) fn read(&self, block: BlockId, generation_min: Generation) -> Result<Reader> {
        // The first look may meet a replica on its way between open and finalized; the second holds it still.
        let reader = match self.look_and_open(block)? {
            Some(reader) => reader,
            None => {
                let _stripe = self.stripe(block);
                match self.look_and_open(block)? {
                    Some(reader) => reader,
                    None => {
                        self.forget_if_lost(block)?;
                        return Err(ReplicaError::NotFound { block });
                    }
                }
            }
        };
        let have = reader.identity.generation;
        if have < generation_min {
            return Err(ReplicaError::Stale { block, have, want: generation_min });
        }
        Ok(reader)
    }

    pub(crate) fn look_and_open(&self, block: BlockId) -> Result<Option<Reader>> {
        let row = || self.index.replica(block);
        let Some(open) = self.find_open(block) else {
            return row()?.map_or(Ok(None), |row| self.open_row(block, &row));
        };
        let state = open.state();
        let not_readable = || {
            let state = open.info().state;
            Err(ReplicaError::State { block, state, needed: "finalized, or being written" })
        };
        match (state.phase, row()?) {
            (Phase::Open, _) => Ok(Some(self.reader_of_open(&open, &state))),
            (Phase::Gone, _) => Ok(None),
            // The copy has not taken its place yet.
            (Phase::Copying, Some(row)) => {
                let reader = self.open_row(block, &row);
                if open.is_landing() { not_readable() } else { reader }
            }
            (Phase::Waiting { .. } | Phase::Copying, _) => not_readable(),
        }
    }

    /// What there is of an open replica at this moment.
    pub(crate) fn reader_of_open(&self, open: &OpenReplica, state: &State) -> Reader {
        let files = open.files();
        Reader {
            identity: state.identity,
            state: ReplicaState::Open,
            len: state.len,
            visible_len: state.visible.min(state.len),
            data_offset: files.data_offset(),
            data: files.data,
            sums: files.sums,
            sums_offset: SumsHeader::LEN as u64,
            tail: state.tail,
            container: state.identity.shelf(),
            _hold: files.slot.map(Hold::Slot),
            sent: self.meters.read.clone(),
        }
    }

    /// `None` if the replica is not where its row says: it moved just now, or a crash took it.
    pub(crate) fn open_row(&self, block: BlockId, row: &Row) -> Result<Option<Reader>> {
        let io = |op, container| move |source| ReplicaError::Io { op, container, source };
        let reader = |data: Arc<File>, data_offset, sums: Arc<File>, sums_offset, container| Reader {
            identity: row.identity(block),
            state: ReplicaState::Finalized,
            len: row.len,
            visible_len: row.len,
            data,
            data_offset,
            sums,
            sums_offset,
            tail: None,
            container,
            _hold: None,
            sent: self.meters.read.clone(),
        };
        match row.place {
            Place::Files { shelf } => {
                let pair = self.layout.shelved_pair(shelf, block);
                let opened = File::open(&pair.data).and_then(|data| Ok((data, File::open(&pair.sums)?)));
                let (data, sums) = match opened {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    opened => opened.map_err(io(DiskOp::Open("a replica"), shelf))?,
                };
                // The last checksum first, then the header: an append changes the header before it changes anything
                // else.
                let tail = stored_tail(&sums, row).map_err(io(DiskOp::Read("checksums"), shelf))?;
                let mut bytes = [0; SumsHeader::LEN];
                sums.read_exact_at(&mut bytes, 0).map_err(io(DiskOp::Read("the header"), shelf))?;
                // Someone may have put a newer one between our two looks; then its row is there as well.
                let same = |header: &SumsHeader| {
                    header.identity.generation == row.generation
                        && header.kept.len == row.len
                        && header.identity.block == block
                };
                match SumsHeader::decode(&bytes) {
                    None => Err(ReplicaError::Corrupt { block, offset: 0 }),
                    Some(header) if !same(&header) => Ok(None),
                    Some(_) => {
                        let reader = reader(Arc::new(data), 0, Arc::new(sums), SumsHeader::LEN as u64, shelf);
                        Ok(Some(Reader { tail, ..reader }))
                    }
                }
            }
            Place::Pack { shelf, offset } => {
                let Some(pack) = self.pack(shelf, false)? else { return Ok(None) };
                let hold = pack.hold(offset);
                let header = pack.header_at(offset).map_err(io(DiskOp::Read("a record"), shelf))?;
                let same = |header: &RecordHeader| {
                    !header.dead && header.identity.block == block && header.identity.generation == row.generation
                };
                Ok(header.filter(same).map(|header| {
                    let (data, sums) = (offset + header.data_offset(), offset + header.sums_offset());
                    let reader = reader(Arc::clone(&pack.file), data, Arc::clone(&pack.file), sums, shelf);
                    Reader { _hold: Some(Hold::Record(Arc::new(hold))), ..reader }
                }))
            }
        }
    }

    /// A row without bytes: the crash after a deletion that the index had not heard of. The caller holds the stripe.
    fn forget_if_lost(&self, block: BlockId) -> Result<()> {
        // Looked at once more: a put, which needs no stripe, may have ended between the looks.
        if self.find_open(block).is_none()
            && let Some(row) = self.index.replica(block)?
            && self.open_row(block, &row)?.is_none()
        {
            // Where the whole disk is gone nothing is forgotten: it may come back.
            self.check_directory()?;
            tracing::warn!(%block, "the index names a replica that is not there; it is forgotten");
            self.index.change(|rows| index::set_replica(rows, block, None))?;
        }
        Ok(())
    }
}

impl Row {
    pub(crate) fn info(&self, block: BlockId) -> ReplicaInfo {
        ReplicaInfo {
            identity: self.identity(block),
            len: self.len,
            visible_len: self.len,
            state: ReplicaState::Finalized,
            has_writer: false,
        }
    }
}

/// The checksum of the partial last chunk, of a replica in files: an append would write it over.
pub(crate) fn stored_tail(sums: &File, row: &Row) -> std::io::Result<Option<u32>> {
    if row.len.is_multiple_of(row.checksum.chunk_len.into()) || row.checksum.kind == ChecksumKind::Null {
        return Ok(None);
    }
    let mut sum = [0; ChecksumSpec::SUM_LEN];
    sums.read_exact_at(&mut sum, sums_place(row.checksum.chunk_count(row.len) - 1))?;
    Ok(Some(u32::from_be_bytes(sum)))
}
