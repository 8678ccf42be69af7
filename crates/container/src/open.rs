//! A replica that is not finalized: two files in `open/`, one writer at most, any number of readers.
//!
//! ```text
//! data   ├────chunk────┼────chunk────┼──part──┤            len: on disk
//!                                ↑ visible                 visible: acknowledged by this node and all below
//! sums   │ c0 │ c1 │ c2 (of the part alone) │              tail: c2 as it was when len was set
//! ```
//!
//! Promise: readers get `len` and the checksum of the partial last chunk as one pair, though the writer goes on: bytes
//! below `len` never change (what is written again is the same), and the pair is set in one step. A writer that was
//! fenced writes nothing more: fencing waits until no write is under way.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Kept, Stage, SumsHeader, sums_place};
use crate::replica::{Identity, ReplicaInfo};
use crate::slots::{self, Slot};
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::checksum::Appender;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, ReplicaState};

/// How often the kernel is told to start writing what came. Long enough for the disk to work in large pieces, short
/// enough that the last `fsync` has little left: the figure is a guess between the two.
const WRITEBACK_LEN: u64 = 8 << 20;
/// How much is read at once to verify.
const VERIFY_LEN: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct OpenReplica {
    pub block: BlockId,
    pub spec: ChecksumSpec,
    files: Mutex<Files>,
    /// Held by whoever changes the files.
    disk: Mutex<Disk>,
    /// Held for a moment only, never while the disk is waited for.
    state: Mutex<State>,
}

/// Where the bytes lie: in two files, or in a slot as long as there are few.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub data: Arc<File>,
    pub sums: Arc<File>,
    pub slot: Option<Arc<Slot>>,
}

impl Files {
    pub(crate) fn pair(data: File, sums: File) -> Self {
        Self { data: Arc::new(data), sums: Arc::new(sums), slot: None }
    }

    pub(crate) fn in_slot(slot: Slot) -> Self {
        Self { data: Arc::clone(&slot.file), sums: Arc::clone(&slot.file), slot: Some(Arc::new(slot)) }
    }

    /// Where the replica's first byte is.
    pub(crate) fn data_offset(&self) -> u64 {
        if self.slot.is_some() { slots::DATA_OFFSET } else { 0 }
    }

    pub(crate) fn write_data(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        self.data.write_all_at(data, self.data_offset() + offset)
    }

    /// `header` speaks of all bytes in the slot, whose checksums are written.
    fn write_slot_header(&self, header: &SumsHeader) -> std::io::Result<()> {
        let mut sums = vec![0; header.identity.checksum.sums_len(header.kept.len) as usize];
        self.sums.read_exact_at(&mut sums, sums_place(0))?;
        self.sums.write_all_at(&header.encode_for_slot(&sums), 0)
    }

    pub(crate) fn read_data(&self, data: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.data.read_exact_at(data, self.data_offset() + offset)
    }
}

/// Bytes of a packet as they came, and the checksums that cover them chunk by chunk; those may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub offset: u64,
    pub data: &'a [u8],
    pub sums: &'a [u8],
}

/// What belongs to the one who changes the files.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    written_back: u64,
    /// The names in `open/` were made durable.
    pub named: bool,
    scratch: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub identity: Identity,
    pub phase: Phase,
    pub len: u64,
    pub visible: u64,
    /// Checksum of the last chunk, if it is partial (and there are checksums).
    pub tail: Option<u32>,
    /// As the header says it.
    pub kept: Kept,
    /// Whose writes are taken: the ticket given out last.
    ticket: u64,
    has_writer: bool,
    fenced_by: Generation,
    /// Its files are on their way to the shelf, where they take the place of another replica's one after the other.
    landing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Copying,
    /// Found at start; until [`OpenReplica::settle`] has verified them, `len` is what the files could hold.
    Waiting {
        settled: bool,
    },
    /// Finalized or deleted; whoever still holds this looks it up anew.
    Gone,
}

/// Where a replica's bytes end, and what of them is kept whatever happens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct End {
    pub len: u64,
    pub tail: Option<u32>,
    pub kept: Kept,
}

impl OpenReplica {
    pub(crate) fn new(identity: Identity, phase: Phase, files: Files, end: End) -> Self {
        let End { len, tail, kept } = end;
        let visible = if phase == Phase::Open { len } else { 0 };
        Self {
            block: identity.block,
            spec: identity.checksum,
            files: Mutex::new(files),
            disk: Mutex::default(),
            state: Mutex::new(State {
                identity,
                phase,
                len,
                visible,
                tail,
                kept,
                ticket: 0,
                has_writer: false,
                fenced_by: identity.generation,
                landing: false,
            }),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.lock_state().clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // Each holder sets its fields in one go, so a panic elsewhere leaves them true.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be asked for after the state: the files may have more than an older state says, never less.
    pub(crate) fn files(&self) -> Files {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_files(&self, files: Files) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// With `len` bytes the replica would not fit where it is.
    pub(crate) fn outgrows(&self, len: u64) -> bool {
        self.files().slot.is_some_and(|slot| !slot.takes(len))
    }

    pub(crate) fn info(&self) -> ReplicaInfo {
        let state = self.lock_state();
        let (named, visible_len) = match state.phase {
            Phase::Waiting { .. } => (ReplicaState::WaitingForRecovery, 0),
            Phase::Copying => (ReplicaState::Copying, 0),
            Phase::Open | Phase::Gone => (ReplicaState::Open, state.visible.min(state.len)),
        };
        ReplicaInfo {
            identity: state.identity,
            len: state.len,
            visible_len,
            state: named,
            has_writer: state.has_writer,
        }
    }

    /// Makes a new writer the only one; returns its ticket.
    pub(crate) fn admit(&self) -> u64 {
        let mut state = self.lock_state();
        state.ticket += 1;
        state.has_writer = true;
        state.ticket
    }

    /// No writer of before writes from now on: their tickets are void, and none is in the middle of a write when this
    /// returns.
    pub(crate) fn fence(&self, by: Generation) {
        {
            let mut state = self.lock_state();
            state.ticket += 1;
            state.has_writer = false;
            state.fenced_by = by;
        }
        drop(self.lock_disk());
    }

    /// The writer went away by itself.
    pub(crate) fn leave(&self, ticket: u64) -> Option<Phase> {
        let mut state = self.lock_state();
        (state.ticket == ticket).then(|| {
            state.has_writer = false;
            state.phase
        })
    }

    pub(crate) fn check_ticket(&self, ticket: u64) -> Result<State> {
        let state = self.lock_state();
        if state.ticket == ticket && state.phase != Phase::Gone {
            return Ok(state.clone());
        }
        Err(ReplicaError::Fenced { block: self.block, by: state.fenced_by })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.lock_state().phase == Phase::Gone
    }

    pub(crate) fn set_landing(&self, landing: bool) {
        self.lock_state().landing = landing;
    }

    /// Whether files on the shelf may be half this replica's, or were when somebody looked last.
    pub(crate) fn is_landing(&self) -> bool {
        let state = self.lock_state();
        state.landing || state.phase == Phase::Gone
    }

    pub(crate) fn set_gone(&self) {
        self.lock_state().phase = Phase::Gone;
    }

    /// What was acknowledged only grows.
    pub(crate) fn set_visible(&self, len: u64) {
        let mut state = self.lock_state();
        state.visible = state.visible.max(len);
    }

    /// As [`Self::set_visible`], for a writer: one that was overtaken must not show bytes that were cut off since.
    pub(crate) fn show(&self, ticket: u64, len: u64) {
        let mut state = self.lock_state();
        if state.ticket == ticket {
            state.visible = state.visible.max(len);
        }
    }

    pub(crate) fn set_open(&self) {
        self.lock_state().phase = Phase::Open;
    }

    pub(crate) fn io(&self, op: DiskOp) -> impl Fn(std::io::Error) -> ReplicaError {
        let container = self.container();
        move |source| ReplicaError::Io { op, container, source }
    }

    pub(crate) fn container(&self) -> ContainerId {
        self.lock_state().identity.shelf()
    }

    /// Writes what of `data` is not on disk yet, by HDFS's rules of overlap. `sums` cover `data` from its first byte,
    /// chunk by chunk; if it is empty they are computed here.
    pub(crate) fn write(&self, ticket: u64, offset: u64, data: &[u8], sums: &[u8], writeback: bool) -> Result<()> {
        let mut disk = self.lock_disk();
        let State { len, tail, identity, .. } = self.check_ticket(ticket)?;
        if offset > len {
            return Err(ReplicaError::Gap { block: self.block, offset, received: len });
        }
        let packet = |reason: String| ReplicaError::Packet { block: self.block, offset, reason };
        let end = offset.checked_add(data.len() as u64).ok_or_else(|| packet("no end".into()))?;
        if end <= len {
            return Ok(()); // sent again after a recovery; it is all here
        }
        let fresh = &data[(len - offset) as usize..];
        let files = self.files();
        if self.spec.kind == ChecksumKind::Null {
            files.write_data(fresh, len).map_err(self.io(DiskOp::Write("data")))?;
            self.advance(end, None);
            return self.writeback(&mut disk, &files, end, writeback);
        }

        let chunk_len = u64::from(self.spec.chunk_len);
        let boundary = len - len % chunk_len;
        let aligned = offset.is_multiple_of(chunk_len);
        let mut scratch = std::mem::take(&mut disk.scratch);
        scratch.clear();
        let new_sums: &[u8] = if aligned && !sums.is_empty() {
            let want = self.spec.sums_len(data.len() as u64);
            if sums.len() as u64 != want {
                return Err(packet(format!(
                    "{} bytes of checksums, {} bytes of data need {want}",
                    sums.len(),
                    end - offset
                )));
            }
            // The packet holds all of our partial chunk: its bytes and its checksum replace ours.
            files
                .write_data(&data[(boundary - offset) as usize..], boundary)
                .map_err(self.io(DiskOp::Write("data")))?;
            &sums[((boundary - offset) / chunk_len) as usize * ChecksumSpec::SUM_LEN..]
        } else {
            if !aligned && !sums.is_empty() && (sums.len() != ChecksumSpec::SUM_LEN || end > boundary + chunk_len) {
                return Err(packet(format!("{} bytes in mid-chunk, which may only fill up that chunk", data.len())));
            }
            // Our partial chunk and the new bytes together get new checksums.
            let mut whole = self.own_partial_chunk(boundary, len, tail)?;
            whole.extend_from_slice(fresh);
            files.write_data(fresh, len).map_err(self.io(DiskOp::Write("data")))?;
            self.spec.compute(&whole, &mut scratch);
            &scratch
        };
        let place = sums_place(boundary / chunk_len);
        files.sums.write_all_at(new_sums, place).map_err(self.io(DiskOp::Write("checksums")))?;
        let tail = if end.is_multiple_of(chunk_len) { None } else { last_sum(new_sums) };
        self.wrote(&files, identity, end, tail)?;
        disk.scratch = scratch;
        self.writeback(&mut disk, &files, end, writeback)
    }

    /// As [`Self::write`], for packets that came together: in one call for their bytes and one for their checksums, if
    /// each begins where the one before it ends, as they do unless something was sent again.
    pub(crate) fn write_run(&self, ticket: u64, run: &[Packet<'_>], writeback: bool) -> Result<()> {
        let mut disk = self.lock_disk();
        let State { len, identity, .. } = self.check_ticket(ticket)?;
        let Some(end) = self.follows(len, run) else {
            drop(disk);
            return run
                .iter()
                .try_for_each(|packet| self.write(ticket, packet.offset, packet.data, packet.sums, writeback));
        };
        let chunk_len = u64::from(self.spec.chunk_len);
        let files = self.files();
        let mut data: Vec<IoSlice> = run.iter().map(|packet| IoSlice::new(packet.data)).collect();
        let data_done = io::file::write_all_vectored_at(&files.data, &mut data, files.data_offset() + len);
        data_done.map_err(self.io(DiskOp::Write("data")))?;
        let mut sums: Vec<IoSlice> = run.iter().map(|packet| IoSlice::new(packet.sums)).collect();
        let sums_done = io::file::write_all_vectored_at(&files.sums, &mut sums, sums_place(len / chunk_len));
        sums_done.map_err(self.io(DiskOp::Write("checksums")))?;
        let last = run.last().map_or(&[][..], |packet| packet.sums);
        let tail = if end.is_multiple_of(chunk_len) { None } else { last_sum(last) };
        self.wrote(&files, identity, end, tail)?;
        self.writeback(&mut disk, &files, end, writeback)
    }

    /// Where a run ends that goes on at a chunk's border, in whole chunks but for the last packet, with checksums for
    /// all of them.
    fn follows(&self, len: u64, run: &[Packet<'_>]) -> Option<u64> {
        let chunk_len = u64::from(self.spec.chunk_len);
        let mut end = len;
        for packet in run {
            let data_len = packet.data.len() as u64;
            let covered = !packet.sums.is_empty() && packet.sums.len() as u64 == self.spec.sums_len(data_len);
            if packet.offset != end || !end.is_multiple_of(chunk_len) || !covered {
                return None;
            }
            end = end.checked_add(data_len)?;
        }
        (self.spec.kind != ChecksumKind::Null).then_some(end)
    }

    /// Bytes up to `end` and their checksums are in the files.
    fn wrote(&self, files: &Files, identity: Identity, end: u64, tail: Option<u32>) -> Result<()> {
        if files.slot.is_some() {
            // Last, so that it never speaks of bytes that are not there.
            let header = SumsHeader { stage: Stage::Open, identity, kept: Kept { len: end, tail: tail.unwrap_or(0) } };
            files.write_slot_header(&header).map_err(self.io(DiskOp::Write("the header")))?;
        }
        self.advance(end, tail);
        Ok(())
    }

    fn advance(&self, len: u64, tail: Option<u32>) {
        let mut state = self.lock_state();
        state.len = len;
        state.tail = tail;
    }

    fn writeback(&self, disk: &mut Disk, files: &Files, end: u64, wanted: bool) -> Result<()> {
        if wanted && end - disk.written_back >= WRITEBACK_LEN {
            let from = disk.written_back;
            io::file::start_writeback(&files.data, from, end - from).map_err(self.io(DiskOp::Write("data back")))?;
            disk.written_back = end;
        }
        Ok(())
    }

    /// Reads the bytes of our partial last chunk, held against their checksum: damage must not be covered by a new one.
    fn own_partial_chunk(&self, boundary: u64, len: u64, tail: Option<u32>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (len - boundary) as usize];
        self.files().read_data(&mut bytes, boundary).map_err(self.io(DiskOp::Read("the last chunk")))?;
        if !bytes.is_empty() && Some(self.spec.kind.of(&bytes)) != tail {
            return Err(ReplicaError::Corrupt { block: self.block, offset: boundary });
        }
        Ok(bytes)
    }

    /// Makes all bytes so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_data()?;
        self.sync_sums()
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        io::file::sync_data(&self.files().data).map_err(self.io(DiskOp::Sync("data")))
    }

    pub(crate) fn sync_sums(&self) -> Result<()> {
        io::file::sync_data(&self.files().sums).map_err(self.io(DiskOp::Sync("checksums")))
    }

    /// Shortens the replica. The caller has fenced all writers and holds the disk.
    pub(crate) fn cut(&self, disk: &mut Disk, new_len: u64) -> Result<()> {
        let State { len, tail, .. } = self.state();
        let files = self.files();
        assert!(files.slot.is_none(), "a replica in a slot is spread before it is cut");
        assert!(new_len <= len, "a cut to {new_len} of {len} bytes");
        if new_len == len {
            return Ok(());
        }
        let chunk_len = u64::from(self.spec.chunk_len);
        let boundary = new_len - new_len % chunk_len;
        let mut new_tail = None;
        if self.spec.kind != ChecksumKind::Null && new_len > boundary {
            let mut chunk = vec![0; chunk_len.min(len - boundary) as usize];
            files.data.read_exact_at(&mut chunk, boundary).map_err(self.io(DiskOp::Read("the last chunk")))?;
            let sum = match tail {
                Some(tail) if boundary + chunk_len > len => tail,
                _ => self.stored_sum(boundary / chunk_len)?,
            };
            if self.spec.kind.of(&chunk) != sum {
                return Err(ReplicaError::Corrupt { block: self.block, offset: boundary });
            }
            new_tail = Some(self.spec.kind.of(&chunk[..(new_len - boundary) as usize]));
        }
        self.advance(new_len, new_tail);
        disk.written_back = disk.written_back.min(new_len);
        {
            let mut state = self.lock_state();
            state.visible = state.visible.min(new_len);
            if state.kept.len > new_len {
                // What is left of it was promised as well.
                state.kept = Kept { len: new_len, tail: new_tail.unwrap_or(0) };
            }
        }
        // The checksum first: after a crash in between, `settle` finds the prefix that it covers.
        if let Some(sum) = new_tail {
            let place = sums_place(boundary / chunk_len);
            files.sums.write_all_at(&sum.to_be_bytes(), place).map_err(self.io(DiskOp::Write("checksums")))?;
        }
        files.data.set_len(new_len).map_err(self.io(DiskOp::Cut("data")))?;
        files.sums.set_len(sums_place(0) + self.spec.sums_len(new_len)).map_err(self.io(DiskOp::Cut("checksums")))
    }

    fn stored_sum(&self, chunk: u64) -> Result<u32> {
        let mut sum = [0; 4];
        self.files().sums.read_exact_at(&mut sum, sums_place(chunk)).map_err(self.io(DiskOp::Read("checksums")))?;
        Ok(u32::from_be_bytes(sum))
    }

    /// Finds out how many bytes of a replica that was found at start are sound, and cuts it there: whole chunks that
    /// verify, and of the first that does not, the longest piece its checksum covers (a crash can leave the checksum of
    /// a partial chunk behind more bytes of it) or that is kept (a crash can leave bytes behind the checksum of more).
    ///
    /// What is sound is written again. The process before may have ended because a sync failed: then the kernel can
    /// show bytes that never came to the disk, call the next sync a success, and lose them later, unless they were
    /// written anew.
    pub(crate) fn settle(&self, disk: &mut Disk) -> Result<()> {
        if self.state().phase != (Phase::Waiting { settled: false }) {
            return Ok(());
        }
        let files = self.files();
        let (len, tail) = self.sound_len(&files)?;
        self.advance(len, tail);
        if let Some(sum) = tail {
            // It may be that of the kept bytes, where the file has one of more bytes.
            let place = sums_place(len / u64::from(self.spec.chunk_len));
            files.sums.write_all_at(&sum.to_be_bytes(), place).map_err(self.io(DiskOp::Write("checksums")))?;
        }
        files.data.set_len(len).map_err(self.io(DiskOp::Cut("data")))?;
        files.sums.set_len(sums_place(0) + self.spec.sums_len(len)).map_err(self.io(DiskOp::Cut("checksums")))?;
        disk.written_back = 0;
        let mut state = self.lock_state();
        state.phase = Phase::Waiting { settled: true };
        state.visible = len;
        Ok(())
    }

    fn sound_len(&self, files: &Files) -> Result<(u64, Option<u32>)> {
        let data_len = files.data.metadata().map_err(self.io(DiskOp::Look("at data")))?.len();
        if self.spec.kind == ChecksumKind::Null {
            return Ok((data_len, None));
        }
        let sums_len = files.sums.metadata().map_err(self.io(DiskOp::Look("at checksums")))?.len();
        let kept = self.state().kept;
        let chunk_len = self.spec.chunk_len as usize;
        let sum_count = sums_len.saturating_sub(sums_place(0)) / 4;
        let covered = data_len.min(sum_count.saturating_mul(chunk_len as u64));
        let step = chunk_len * (VERIFY_LEN / chunk_len).max(1);
        let mut data = vec![0; step.min(covered as usize)];
        let mut sums = Vec::new();
        let mut at = 0;
        while at < covered {
            let piece = &mut data[..(step as u64).min(covered - at) as usize];
            files.data.read_exact_at(piece, at).map_err(self.io(DiskOp::Read("data")))?;
            sums.resize(self.spec.sums_len(piece.len() as u64) as usize, 0);
            let place = sums_place(at / chunk_len as u64);
            files.sums.read_exact_at(&mut sums, place).map_err(self.io(DiskOp::Read("checksums")))?;
            if let Err(bad) = self.spec.verify(piece, &sums) {
                let chunk = &piece[bad..piece.len().min(bad + chunk_len)];
                let sum = last_sum(&sums[..(bad / chunk_len + 1) * 4]).unwrap_or_default();
                let covered = covered_prefix(self.spec.kind, chunk, sum);
                let kept_len = kept_prefix(self.spec.kind, chunk, at + bad as u64, kept);
                let (sound, sum) = if kept_len > covered { (kept_len, kept.tail) } else { (covered, sum) };
                self.write_again(files, &piece[..bad + sound], at, &sums[..bad / chunk_len * 4], place)?;
                return Ok((at + (bad + sound) as u64, (sound > 0).then_some(sum)));
            }
            self.write_again(files, piece, at, &sums, place)?;
            at += piece.len() as u64;
        }
        let tail = (covered % chunk_len as u64 > 0).then(|| last_sum(&sums)).flatten();
        Ok((covered, tail))
    }

    fn write_again(&self, files: &Files, data: &[u8], at: u64, sums: &[u8], place: u64) -> Result<()> {
        files.data.write_all_at(data, at).map_err(self.io(DiskOp::Write("data again")))?;
        files.sums.write_all_at(sums, place).map_err(self.io(DiskOp::Write("checksums again")))
    }

    /// All bytes so far are to be kept; the next header says so. It takes the place of one that vouched for less: what
    /// is to survive a loss of power must be on disk before that header is written.
    pub(crate) fn keep(&self) {
        let mut state = self.lock_state();
        state.kept = Kept { len: state.len, tail: state.tail.unwrap_or(0) };
    }

    /// Writes the header anew, with another generation or owner, and with what is kept.
    pub(crate) fn set_identity(&self, identity: Identity, stage: Stage) -> Result<()> {
        let (state, files) = (self.state(), self.files());
        let all = Kept { len: state.len, tail: state.tail.unwrap_or(0) };
        let written = match files.slot {
            Some(_) => files.write_slot_header(&SumsHeader { stage, identity, kept: all }),
            None => files.sums.write_all_at(&SumsHeader { stage, identity, kept: state.kept }.encode(), 0),
        };
        written.map_err(self.io(DiskOp::Write("the header")))?;
        self.lock_state().identity = identity;
        Ok(())
    }
}

fn last_sum(sums: &[u8]) -> Option<u32> {
    sums.last_chunk::<4>().map(|sum| u32::from_be_bytes(*sum))
}

/// How many bytes of `chunk`, which begins at `offset`, are kept and are what they were; 0 if kept bytes end elsewhere.
fn kept_prefix(kind: ChecksumKind, chunk: &[u8], offset: u64, kept: Kept) -> usize {
    let len = kept.len.checked_sub(offset).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    match chunk.get(..len) {
        Some(bytes) if kind.of(bytes) == kept.tail => len,
        _ => 0,
    }
}

/// The longest prefix of `bytes`, not empty and not all, that has the checksum `sum`; 0 if there is none.
fn covered_prefix(kind: ChecksumKind, bytes: &[u8], sum: u32) -> usize {
    let appender = Appender::new(kind, 1);
    let mut running = 0;
    let mut longest = 0;
    for (place, byte) in bytes.iter().enumerate() {
        running = appender.append(running, kind.of(std::slice::from_ref(byte)));
        if running == sum {
            longest = place + 1;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_finds_the_bytes_it_was_made_of() {
        let bytes: Vec<u8> = (0..512u32).map(|at| (at * 7) as u8).collect();
        for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c] {
            for len in [1, 300, 511] {
                assert_eq!(covered_prefix(kind, &bytes, kind.of(&bytes[..len])), len);
            }
            assert_eq!(covered_prefix(kind, &bytes, 12_345), 0);
        }
    }
}
