//! Moving open replicas out of slots, into files of their own.
//!
//! What a slot holds survives the end of the process like any file, and nobody was promised more: before bytes are
//! synced the replica is *spread*, which is to say that it gets files of its own; likewise before it outgrows the slot,
//! and before a recovery or a returning writer changes it. What a crash left in slots is spread by the next start.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Kept, Stage, SumsHeader, read_header, sums_place};
use crate::inner::Inner;
use crate::open::{Disk, Files, OpenReplica};
use crate::replica::Identity;
use crate::slots::{DATA_LEN_MAX, DATA_OFFSET, PREFIX};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use types::{ChecksumSpec, ContainerId};

impl Inner {
    /// Gives a replica files of its own, if it lies in a slot. The caller holds its disk.
    pub(crate) fn spread(&self, replica: &OpenReplica, _disk: &mut Disk) -> Result<()> {
        let Some(slot) = replica.files().slot else { return Ok(()) };
        let state = replica.state();
        let files =
            self.fill_files(&slot.file, state.identity, Kept { len: state.len, tail: state.tail.unwrap_or(0) })?;
        replica.set_files(files);
        slot.clear().map_err(replica.io(DiskOp::Write("over a slot")))
    }

    /// The files of an open replica, with the bytes that a slot has of it. "Copying" until they are whole: a start that
    /// finds them half done takes the slot.
    fn fill_files(&self, slot: &File, identity: Identity, have: Kept) -> Result<Files> {
        let io = |op| move |source| ReplicaError::Io { op, container: identity.shelf(), source };
        let mut data = vec![0; have.len as usize];
        slot.read_exact_at(&mut data, DATA_OFFSET).map_err(io(DiskOp::Read("a slot")))?;
        let sums = read_sums(slot, identity.checksum, have).map_err(io(DiskOp::Read("a slot")))?;
        let files = self.create_pair(identity, Stage::Copying)?;
        let header = SumsHeader { stage: Stage::Open, identity, kept: Kept::default() };
        files.data.write_all_at(&data, 0).map_err(io(DiskOp::Write("data")))?;
        files.sums.write_all_at(&sums, sums_place(0)).map_err(io(DiskOp::Write("checksums")))?;
        files.sums.write_all_at(&header.encode(), 0).map_err(io(DiskOp::Write("the header")))?;
        Ok(files)
    }

    /// Gives files to what a crash left in slots, and removes the slots. What becomes of the files is decided as of
    /// any.
    pub(crate) fn take_in_slots(&self) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container: ContainerId(0), source };
        let dir = std::fs::read_dir(self.layout.open()).map_err(io(DiskOp::List("open replicas")))?;
        for entry in dir {
            let entry = entry.map_err(io(DiskOp::List("open replicas")))?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.set_aside(&path, &"it is a directory");
                continue;
            }
            match self.take_in_slot(&path) {
                Err(error) => {
                    tracing::error!(path = %path.display(), "an open replica stays in its slot until the next start");
                    self.pass_over(error)?;
                    if let Ok(number) = number.parse() {
                        self.slots.keep(number);
                    }
                }
                Ok(()) => {
                    if let Err(error) = std::fs::remove_file(&path) {
                        tracing::warn!(path = %path.display(), %error, "empty slot kept");
                    }
                }
            }
        }
        Ok(())
    }

    fn take_in_slot(&self, path: &std::path::Path) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container: ContainerId(0), source };
        let slot = File::open(path).map_err(io(DiskOp::Open("a slot")))?;
        let Some(header) = read_header(&slot).map_err(io(DiskOp::Read("a slot")))? else { return Ok(()) };
        let SumsHeader { identity, kept, .. } = header;
        if header.stage != Stage::Open || kept.len > DATA_LEN_MAX {
            return Ok(());
        }
        let mut bytes = [0; SumsHeader::LEN];
        slot.read_exact_at(&mut bytes, 0).map_err(io(DiskOp::Read("a slot")))?;
        let sums = read_sums(&slot, identity.checksum, kept).map_err(io(DiskOp::Read("a slot")))?;
        if !SumsHeader::speaks_of(&bytes, &sums) {
            tracing::warn!(
                block = %identity.block,
                "a slot holds what was there before: its header alone outlived the loss of power"
            );
            return Ok(());
        }
        // Files that are whole came later. Where nobody can say whether they are, they are not written over.
        let files = match File::open(self.layout.open_pair(identity.block).sums) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            sums => sums.and_then(|sums| read_header(&sums)).map_err(io(DiskOp::Read("a header")))?,
        };
        let is_later =
            |files: SumsHeader| files.stage != Stage::Copying && files.identity.generation >= identity.generation;
        if files.is_some_and(is_later) {
            return Ok(());
        }
        self.fill_files(&slot, identity, kept).map(drop)
    }
}

/// The checksums of the bytes of which a slot's header speaks.
fn read_sums(slot: &File, spec: ChecksumSpec, have: Kept) -> std::io::Result<Vec<u8>> {
    let mut sums = vec![0; spec.sums_len(have.len) as usize];
    slot.read_exact_at(&mut sums, sums_place(0))?;
    if !have.len.is_multiple_of(spec.chunk_len.into())
        && let Some(last) = sums.last_chunk_mut::<{ ChecksumSpec::SUM_LEN }>()
    {
        // The one in its place may cover bytes whose writing was cut short.
        *last = have.tail.to_be_bytes();
    }
    Ok(sums)
}
