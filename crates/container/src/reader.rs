//! One replica, open for reading: where its bytes lie, and the checksums that cover them.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::pack::RecordHold;
use crate::replica::Identity;
use crate::slots::Slot;
use metrics::Counter;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use types::checksum::composite;
use types::{ChecksumKind, ChecksumSpec, ContainerId, ReplicaState};

/// A replica as it was when [`Volume::read`](crate::Volume::read) was called. It stays readable when the replica is
/// finalized, moved, replaced or deleted meanwhile; its space comes back with the last reader. Of one that is being
/// written it shows a length and the checksums of exactly that length.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) identity: Identity,
    pub(crate) state: ReplicaState,
    pub(crate) len: u64,
    pub(crate) visible_len: u64,
    pub(crate) data: Arc<File>,
    pub(crate) data_offset: u64,
    pub(crate) sums: Arc<File>,
    pub(crate) sums_offset: u64,
    /// The checksum of the partial last chunk, where the one in the file may already cover more.
    pub(crate) tail: Option<u32>,
    pub(crate) container: ContainerId,
    /// Of a replica that shares a file with others: what keeps its bytes.
    pub(crate) _hold: Option<Hold>,
    /// Bytes that were sent of the volume's replicas.
    pub(crate) sent: Counter,
}

/// What a reader in another process may be given of a replica.
#[derive(Clone, Copy, Debug)]
pub struct OwnFiles<'a> {
    /// Begins with the replica's bytes; more come behind them when the block is appended to.
    pub data: &'a Arc<File>,
    pub sums: &'a Arc<File>,
    /// Where the checksums begin in theirs.
    pub sums_offset: u64,
    /// The checksum of the partial last chunk: the stored one changes when the block is appended to.
    pub last_sum: Option<u32>,
}

#[derive(Clone, Debug)]
#[expect(dead_code, reason = "held, not read")]
pub(crate) enum Hold {
    Record(Arc<RecordHold>),
    Slot(Arc<Slot>),
}

impl Reader {
    /// So many bytes went from the file to a reader, past this.
    pub fn count_sent(&self, len: u64) {
        self.sent.inc_by(len);
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    pub fn state(&self) -> ReplicaState {
        self.state
    }

    pub fn checksum(&self) -> ChecksumSpec {
        self.identity.checksum
    }

    /// Bytes that can be read, each covered by a checksum.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that were acknowledged; `len` of a finalized replica.
    pub fn visible_len(&self) -> u64 {
        self.visible_len
    }

    /// The file that holds the bytes, for sendfile; the replica's first byte is at [`Self::data_offset`] in it.
    pub fn data(&self) -> &Arc<File> {
        &self.data
    }

    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Whether no other replica shares its files.
    pub fn has_own_files(&self) -> bool {
        self.own_files().is_some()
    }

    /// The files of a finalized replica, if no other shares them: open for reading alone.
    pub fn own_files(&self) -> Option<OwnFiles<'_>> {
        let is_own = self.state == ReplicaState::Finalized && self._hold.is_none();
        is_own.then_some(OwnFiles {
            data: &self.data,
            sums: &self.sums,
            sums_offset: self.sums_offset,
            last_sum: self.tail,
        })
    }

    /// Appends the stored checksums of the chunks that hold the bytes `offset..offset + len`. `offset` starts a chunk;
    /// the last chunk may be the replica's short one, or be meant whole.
    pub fn sums(&self, offset: u64, len: u64, sums: &mut Vec<u8>) -> Result<()> {
        let spec = self.checksum();
        let chunk_len = u64::from(spec.chunk_len);
        assert!(offset.is_multiple_of(chunk_len), "checksums start on a chunk, {offset} does not");
        let end = offset.checked_add(len).filter(|end| *end <= self.len).ok_or_else(|| ReplicaError::Length {
            block: self.identity.block,
            have: self.len,
            need: format!("bytes {offset} to {}", offset.saturating_add(len)),
        })?;
        if spec.kind == ChecksumKind::Null || len == 0 {
            return Ok(());
        }
        let start = sums.len();
        sums.resize(start + spec.sums_len(len) as usize, 0);
        let place = self.sums_offset + offset / chunk_len * ChecksumSpec::SUM_LEN as u64;
        self.sums.read_exact_at(&mut sums[start..], place).map_err(self.io(DiskOp::Read("checksums")))?;
        if let Some(tail) = self.tail
            && end > self.len - self.len % chunk_len
            && let Some(last) = sums.last_chunk_mut::<4>()
        {
            *last = tail.to_be_bytes();
        }
        Ok(())
    }

    /// Reads bytes, unverified.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            let need = format!("{} bytes at {offset}", bytes.len());
            return Err(ReplicaError::Length { block: self.identity.block, have: self.len, need });
        }
        self.data.read_exact_at(bytes, self.data_offset + offset).map_err(self.io(DiskOp::Read("data")))
    }

    /// The checksum of the bytes from `offset` (on a chunk) to `offset + len` where that ends in mid-chunk: read, held
    /// against the stored checksum, and made anew. For digests of a part of a block.
    pub fn partial_sum(&self, offset: u64, len: u64) -> Result<u32> {
        let spec = self.checksum();
        let whole = u64::from(spec.chunk_len).min(self.len.saturating_sub(offset));
        if len > whole {
            let need = format!("{len} bytes of the chunk at {offset}");
            return Err(ReplicaError::Length { block: self.identity.block, have: self.len, need });
        }
        let mut chunk = vec![0; whole as usize];
        self.read_at(offset, &mut chunk)?;
        let mut sums = Vec::new();
        self.sums(offset, whole, &mut sums)?;
        if spec.verify(&chunk, &sums).is_err() {
            return Err(ReplicaError::Corrupt { block: self.identity.block, offset });
        }
        Ok(spec.kind.of(&chunk[..len as usize]))
    }

    /// Holds every byte against its checksum. Returns the checksum of all bytes, made of those of the chunks.
    pub fn verify(&self) -> Result<u32> {
        let spec = self.checksum();
        let chunk_len = spec.chunk_len as usize;
        let step = chunk_len * ((1 << 20) / chunk_len).max(1);
        let mut data = vec![0; step.min(self.len as usize)];
        let mut sums = Vec::new();
        let mut all_sums = Vec::new();
        let mut at = 0;
        while at < self.len {
            let piece = &mut data[..(step as u64).min(self.len - at) as usize];
            self.read_at(at, piece)?;
            sums.clear();
            self.sums(at, piece.len() as u64, &mut sums)?;
            spec.verify(piece, &sums)
                .map_err(|bad| ReplicaError::Corrupt { block: self.identity.block, offset: at + bad as u64 })?;
            all_sums.extend_from_slice(&sums);
            at += piece.len() as u64;
        }
        Ok(if spec.kind == ChecksumKind::Null { 0 } else { composite(spec, self.len, &all_sums) })
    }

    fn io(&self, op: DiskOp) -> impl Fn(std::io::Error) -> ReplicaError {
        let container = self.container;
        move |source| ReplicaError::Io { op, container, source }
    }
}
