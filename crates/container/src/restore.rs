//! Putting a volume in order when it is opened: after a crash, after the loss of the index, or after nothing at all.
//!
//! | found | means | becomes |
//! |---|---|---|
//! | `open/b.sums` alone, its data on the shelf | crash between the two renames of a put or a reopening | finalized |
//! | `open/b.sums` alone | crash while it was created or removed | removed |
//! | `open/b.data` alone, or a broken header in `open/` | the same | removed |
//! | `open/slot-n` with a header | its writer is gone, or a put or a spreading was cut short | a pair, unless there is one that is whole |
//! | `open/` pair, "copying" | a copy or an unpacking broke off | removed |
//! | `open/` pair, "finalized", every byte sound | crash in a put before the renames | finalized |
//! | `open/` pair, and as good a finalized replica | crash behind a packed put | removed |
//! | `open/` pair else | its writer is gone | waits for recovery |
//! | pair on the shelf, record in a pack | finalized | in the index |
//! | pair on the shelf, data of another length | lost power in the mode `replicated` | waits for recovery |
//! | two finalized replicas of a block | crash before the older was removed | the newer generation, else the longer stays |
//! | what does not read | a bad sector, a limit of the moment | left as it is for the next start; counted and logged |
//! | a directory by the name of a file | a strange hand | moved to `quarantine/`; counted and logged |
//!
//! Promise: no single thing keeps the volume from opening. What could not be read is missing here, and other nodes have
//! it.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Stage, SumsHeader, read_header, sums_place};
use crate::index::{self, ContainerRow, Place, Row};
use crate::inner::{Inner, lock, remove};
use crate::layout::{Named, Pair, named, number};
use crate::open::{End, Files, OpenReplica, Phase};
use crate::pack::Pack;
use crate::record::RecordHeader;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::{BlockId, ContainerId};

/// Rows in memory at once while a container is looked through.
const ROWS_AT_ONCE: usize = 1000;
/// Things of one name that are kept in quarantine.
const QUARANTINE_COUNT_MAX: usize = 100;

impl Inner {
    /// `behind` are the containers that the index may not know to the end.
    pub(crate) fn restore(&self, behind: Vec<ContainerId>) -> Result<()> {
        let mut behind: BTreeSet<ContainerId> = behind.into_iter().collect();
        let volume = self.identity().volume.0;
        let complete = match self.index.complete_for()? {
            // What it calls known was known by another salt.
            Some(of) if of != volume => return Err(index::error("it is that of another volume").into()),
            of => of.is_some(),
        };
        let mut all_listed = true;
        if !complete {
            match self.all_containers() {
                Ok(all) => behind = all,
                Err(error) => {
                    all_listed = false;
                    self.pass_over(error)?;
                }
            }
        }
        if let Err(error) = self.take_in_slots() {
            self.pass_over(error)?;
        }
        let found = self.list_open();
        behind.extend(self.end_half_moves(&found)?);
        for shelf in behind {
            if let Err(error) = self.look_through(shelf) {
                self.pass_over(error)?;
                self.keep_mark(shelf);
            }
        }
        // Anew: looking through may have taken a damaged replica off its shelf.
        let found = self.list_open();
        for block in found.data.difference(&found.sums) {
            tracing::info!(%block, "data without checksums removed: their creation or removal was cut short");
            self.remove_or_set_aside(&self.layout.open_pair(*block).data);
        }
        for block in &found.sums {
            match self.header_of_open(*block) {
                Ok(Some(open)) => {
                    if let Err(error) = self.take_in_open(*block, open) {
                        self.pass_over(error)?;
                    }
                }
                Ok(None) => {}
                // Nobody reads back what is in quarantine, and the next start may read this.
                Err(error) => self.pass_over(error)?,
            }
        }
        if !complete && all_listed {
            self.index.set_complete_for(volume)?;
        }
        Ok(())
    }

    /// The next start shall look through the container again.
    fn keep_mark(&self, shelf: ContainerId) {
        match self.ahead.mark(shelf) {
            Ok(pending) => {
                drop(pending);
                self.ahead.keep(shelf);
            }
            Err(error) => {
                tracing::warn!(container = %shelf, %error, "the next start does not scan it again")
            }
        }
    }

    pub(crate) fn all_containers(&self) -> Result<BTreeSet<ContainerId>> {
        let io = io(DiskOp::List("containers"), ContainerId(0));
        let mut all = BTreeSet::new();
        for entry in std::fs::read_dir(self.layout.containers()).map_err(&io)? {
            let name = entry.map_err(&io)?.file_name();
            all.extend(name.to_str().and_then(number).map(ContainerId));
        }
        Ok(all)
    }

    /// What there is of open replicas, as far as the directory reads.
    fn list_open(&self) -> Found {
        let mut found = Found::default();
        if let Err(error) = list(&self.layout.open(), &mut found) {
            tracing::error!(%error, "not all open replicas could be listed");
            self.count_fault();
            found.keep_pairs();
        }
        for path in std::mem::take(&mut found.strange) {
            self.set_aside(&path, &"it is a directory");
        }
        found
    }

    /// Ends the puts (and takes back the reopenings) that stopped between their two renames. Returns their containers.
    fn end_half_moves(&self, found: &Found) -> Result<Vec<ContainerId>> {
        let mut shelves = Vec::new();
        for block in found.sums.difference(&found.data) {
            match self.end_half_move(*block) {
                Ok(shelf) => shelves.extend(shelf),
                // They may be the only checksums of a finalized replica.
                Err(error) => self.pass_over(error)?,
            }
        }
        Ok(shelves)
    }

    fn end_half_move(&self, block: BlockId) -> Result<Option<ContainerId>> {
        let pair = self.layout.open_pair(block);
        let header = File::open(&pair.sums).and_then(|sums| read_header(&sums));
        let header = header
            .map_err(io(DiskOp::Read("a header"), block.born_in()))?
            .filter(|header| header.identity.block == block);
        let row_shelf = self.index.replica(block)?.map(|row| row.place.shelf());
        // Where its home was told late, the shelf is not the home.
        let shelves_possible =
            header.map(|header| header.identity.shelf()).into_iter().chain([block.born_in()]).chain(row_shelf);
        let mut shelf = shelves_possible.filter(|shelf| self.layout.shelved_pair(*shelf, block).data.exists());
        let shelf = shelf.next();
        let half_moved = shelf.map_or(Ok(false), |shelf| self.is_half_move(block, shelf, header))?;
        let Some(shelf) = shelf.filter(|_| half_moved) else {
            remove(&pair.sums).map_err(io(DiskOp::Remove("checksums"), block.born_in()))?;
            return Ok(None);
        };
        let to = self.layout.shelved_pair(shelf, block).sums;
        std::fs::rename(&pair.sums, to).map_err(io(DiskOp::Rename("checksums onto the shelf"), shelf))?;
        Ok(Some(shelf))
    }

    /// Whether checksums alone in `open/` belong to the data on this shelf. Where the shelf has both, they are those of
    /// a put that replaces the replica there, if its data came already; or the beginning of another one, and what is
    /// there is whole.
    fn is_half_move(&self, block: BlockId, shelf: ContainerId, header: Option<SumsHeader>) -> Result<bool> {
        let (open, shelved) = (self.layout.open_pair(block), self.layout.shelved_pair(shelf, block));
        if !shelved.sums.exists() {
            return Ok(true);
        }
        let Some(header) = header.filter(|header| header.stage == Stage::Finalized) else { return Ok(false) };
        let files = File::open(&shelved.data).and_then(|data| Ok((data, File::open(&open.sums)?)));
        let (data, sums) = files.map_err(io(DiskOp::Open("half a replica"), shelf))?;
        let len = data.metadata().map_err(io(DiskOp::Look("at data"), shelf))?.len();
        let end = End { len, tail: None, kept: header.kept };
        let replica = OpenReplica::new(header.identity, Phase::Open, Files::pair(data, sums), end);
        Ok(len == header.kept.len && self.reader_of_open(&replica, &replica.state()).verify().is_ok())
    }

    /// Brings the index up to what lies in a container.
    fn look_through(&self, shelf: ContainerId) -> Result<()> {
        let mut found = Found::default();
        match list(&self.layout.container(shelf), &mut found) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                self.set_aside(&self.layout.container(shelf), &error);
                return Ok(());
            }
            listed => listed.map_err(io(DiskOp::List("a container"), shelf))?,
        }
        for path in std::mem::take(&mut found.strange) {
            self.set_aside(&path, &"it is a directory");
        }
        for block in found.sums.difference(&found.data) {
            self.remove_or_set_aside(&self.layout.shelved_pair(shelf, *block).sums);
        }
        for block in found.data.difference(&found.sums) {
            tracing::warn!(
                %block, container = %shelf,
                "data without checksums: not served, and left for someone to look at"
            );
        }
        for block in found.data.intersection(&found.sums) {
            if let Err(error) = self.take_in_files(shelf, *block) {
                self.pass_over(error)?;
                self.keep_mark(shelf);
            }
        }
        if let Err(error) = self.take_in_pack(shelf) {
            self.pass_over(error)?;
            self.keep_mark(shelf);
        }
        // A pack without live records stays here: it may hold those of another identity that comes back.
        self.forget_deleted(shelf, &found)
    }

    /// Drops the rows of replicas that were deleted shortly before the crash. Blocks that were born in the container
    /// are looked at; of the few that moved here, a row without bytes is found out when somebody asks for it.
    fn forget_deleted(&self, shelf: ContainerId, found: &Found) -> Result<()> {
        let mut from = BlockId(shelf.0 << BlockId::INDEX_BITS);
        loop {
            let rows = self.index.replicas(from, ROWS_AT_ONCE)?;
            let here = rows.iter().take_while(|(block, _)| block.born_in() == shelf);
            for (block, row) in here.filter(|(_, row)| row.place.shelf() == shelf) {
                let there = match row.place {
                    Place::Files { .. } => found.data.contains(block) && found.sums.contains(block),
                    // One that does not read is there.
                    Place::Pack { .. } => self.is_there(*block, row)?.unwrap_or(true),
                };
                if !there {
                    self.index.change(|rows| index::set_replica(rows, *block, None))?;
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS_AT_ONCE && last.born_in() == shelf => from = BlockId(last.0 + 1),
                _ => return Ok(()),
            }
        }
    }

    fn take_in_files(&self, shelf: ContainerId, block: BlockId) -> Result<()> {
        let pair = self.layout.shelved_pair(shelf, block);
        let header =
            File::open(&pair.sums).and_then(|sums| read_header(&sums)).map_err(io(DiskOp::Read("a header"), shelf))?;
        let Some(header) = header.filter(|header| header.identity.block == block) else {
            tracing::warn!(
                %block, container = %shelf,
                "the header is damaged: not served, and left for someone to look at"
            );
            return Ok(());
        };
        let data_len = std::fs::metadata(&pair.data).map_err(io(DiskOp::Look("at data"), shelf))?.len();
        if header.stage == Stage::Finalized && header.kept.len == data_len {
            return self.take_in(block, Row::new(header.identity, data_len, Place::Files { shelf }));
        }
        tracing::warn!(%block, container = %shelf, data_len, "replica differs from its header; it waits for recovery");
        let open = SumsHeader { stage: Stage::Open, ..header };
        let to = self.layout.open_pair(block);
        let outcome = OpenOptions::new()
            .write(true)
            .open(&pair.sums)
            .and_then(|sums| sums.write_all_at(&open.encode(), 0))
            .and_then(|()| std::fs::rename(&pair.sums, &to.sums))
            .and_then(|()| std::fs::rename(&pair.data, &to.data));
        outcome.map_err(io(DiskOp::Rename("a damaged replica off the shelf"), shelf))
    }

    fn take_in_pack(&self, shelf: ContainerId) -> Result<()> {
        let known = self.index.container(shelf)?.pack_known;
        let mut found = Vec::new();
        let keep = |offset, header: &RecordHeader| found.push((offset, *header));
        let pack = match Pack::open(&self.layout.pack(shelf), (self.salt(), shelf), known, false, keep) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            pack => pack.map_err(io(DiskOp::Read("the pack"), shelf))?,
        };
        // What did not read is tried again by the next start.
        let end = pack.unreadable.unwrap_or(pack.end());
        if let Some(place) = pack.unreadable {
            tracing::error!(
                container = %shelf, place,
                "a part of a pack does not read; the replicas there are not served"
            );
            self.count_fault();
            self.keep_mark(shelf);
        }
        if let Some(place) = pack.foreign {
            tracing::error!(
                container = %shelf, place,
                "what looks like a record lies behind the last of a pack; it stays"
            );
            self.count_fault();
        }
        pack.set_dead_len(self.index.dead_len(shelf)?);
        lock(&self.packs).insert(shelf, Arc::new(pack));
        for (offset, header) in found {
            let (block, place) = (header.identity.block, Place::Pack { shelf, offset });
            if !header.dead {
                self.take_in(block, Row::new(header.identity, header.data_len.into(), place))?;
            } else if self.index.replica(block)?.is_some_and(|row| row.place == place) {
                self.index.change(|rows| index::set_replica(rows, block, None))?;
            }
        }
        self.index.change(|rows| {
            let row = index::read_container(rows, shelf)?;
            index::write_container(rows, shelf, ContainerRow { pack_known: end, ..row })
        })?;
        Ok(())
    }

    /// A finalized replica was found. If the block has another one, the better stays.
    fn take_in(&self, block: BlockId, new: Row) -> Result<()> {
        let old = self.index.replica(block)?;
        if let Some(old) = old.filter(|old| old.place != new.place)
            && (old.generation, old.len) >= (new.generation, new.len)
            && self.is_there(block, &old)?.unwrap_or(false)
        {
            tracing::info!(%block, "a second replica is not better than the first; it goes");
            return self.remove_bytes(block, new.place);
        }
        if old == Some(new) {
            return Ok(());
        }
        self.index.change(|rows| index::set_replica(rows, block, Some(&new)))?;
        match old {
            Some(old) if old.place != new.place => self.remove_bytes(block, old.place),
            _ => Ok(()),
        }
    }

    /// Whether a row's replica is there. `None`: it does not read.
    fn is_there(&self, block: BlockId, row: &Row) -> Result<Option<bool>> {
        match self.open_row(block, row) {
            Err(error @ ReplicaError::Index(_)) => Err(error),
            Err(error) => {
                tracing::error!(%block, %error, "a replica does not read");
                self.count_fault();
                Ok(None)
            }
            opened => Ok(Some(opened?.is_some())),
        }
    }

    /// The files of a pair in `open/`, and their header. `None`: they are gone.
    fn header_of_open(&self, block: BlockId) -> Result<Option<(File, File, SumsHeader)>> {
        let pair = self.layout.open_pair(block);
        let container = block.born_in();
        let open = |path: &Path| {
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.map_err(io(DiskOp::Open("a replica"), container))
        };
        let (data, sums) = match (open(&pair.data), open(&pair.sums)) {
            (Ok(data), Ok(sums)) => (data, sums),
            (Err(ReplicaError::Io { source, .. }), _) if source.kind() == ErrorKind::NotFound => return Ok(None),
            (data, sums) => (data?, sums?),
        };
        let header = read_header(&sums).map_err(io(DiskOp::Read("a header"), container))?;
        let Some(header) = header.filter(|header| header.identity.block == block) else {
            tracing::warn!(%block, "open replica without a valid header removed: its contents are unknown");
            remove_pair(&pair, container)?;
            return Ok(None);
        };
        Ok(Some((data, sums, header)))
    }

    /// Decides about a pair in `open/`.
    fn take_in_open(&self, block: BlockId, (data, sums, header): (File, File, SumsHeader)) -> Result<()> {
        let pair = self.layout.open_pair(block);
        let container = block.born_in();
        if header.stage == Stage::Copying {
            return remove_pair(&pair, container);
        }
        let data_len = data.metadata().map_err(io(DiskOp::Look("at data"), container))?.len();
        let sums_len = sums.metadata().map_err(io(DiskOp::Look("at checksums"), container))?.len();
        let spec = header.identity.checksum;
        let len = match spec.sums_len(1) {
            0 => data_len,
            _ => data_len.min((sums_len.saturating_sub(sums_place(0)) / 4).saturating_mul(spec.chunk_len.into())),
        };
        if let Some(row) = self.index.replica(block)? {
            let there = self.is_there(block, &row)?;
            if there == Some(true) && (row.generation, row.len) >= (header.identity.generation, len) {
                return remove_pair(&pair, container);
            }
            if there == Some(false) {
                self.index.change(|rows| index::set_replica(rows, block, None))?;
            }
        }
        let waiting = Phase::Waiting { settled: false };
        let replica = Arc::new(OpenReplica::new(
            header.identity,
            waiting,
            Files::pair(data, sums),
            End { len, tail: None, kept: header.kept },
        ));
        lock(&self.open).insert(block, Arc::clone(&replica));
        if header.stage == Stage::Finalized {
            let mut disk = replica.lock_disk();
            replica.settle(&mut disk)?;
            let state = replica.state();
            if state.len == header.kept.len {
                return self.put_locked(&replica, &mut disk, &state, state.len);
            }
            tracing::warn!(
                %block, len = state.len, wanted = header.kept.len,
                "a put was cut short and bytes are missing"
            );
            replica.set_identity(state.identity, Stage::Open)?;
        }
        Ok(())
    }
}

impl Inner {
    /// A fault of one thing is reported and left behind; one of the index is not.
    pub(crate) fn pass_over(&self, error: ReplicaError) -> Result<()> {
        if let ReplicaError::Index(_) = error {
            return Err(error);
        }
        tracing::error!(%error, "a part of the volume could not be read; it is not served");
        self.count_fault();
        Ok(())
    }

    fn remove_or_set_aside(&self, path: &Path) {
        if let Err(error) = remove(path) {
            self.set_aside(path, &error);
        }
    }

    /// Moves what cannot be what its name says out of the way, for someone to look at. Nothing is lost by it, and
    /// whoever needs the name next finds it free.
    pub(crate) fn set_aside(&self, path: &Path, why: &dyn fmt::Display) {
        self.count_fault();
        let name =
            |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{}-{}", name(path.parent()), name(Some(path)));
        let dir = self.layout.quarantine();
        let free = (0..QUARANTINE_COUNT_MAX).map(|turn| dir.join(format!("{name}.{turn}")));
        let Some(to) = free.into_iter().find(|to| !to.exists()) else {
            tracing::error!(
                path = %path.display(), %why,
                "it cannot be used, and {} has enough of the kind; it stays",
                dir.display()
            );
            return;
        };
        match std::fs::create_dir_all(&dir).and_then(|()| std::fs::rename(path, &to)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(
                    path = %path.display(), %why, %error,
                    "it cannot be used, nor moved to quarantine; it stays"
                );
            }
            Ok(()) => {
                tracing::error!(
                    path = %path.display(), to = %to.display(), %why,
                    "it cannot be used, and was moved to quarantine"
                )
            }
        }
    }

    fn count_fault(&self) {
        self.fault_count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The replicas in a directory, by what there is of them.
#[derive(Debug, Default)]
struct Found {
    data: BTreeSet<BlockId>,
    sums: BTreeSet<BlockId>,
    /// Directories by the names of files.
    strange: Vec<PathBuf>,
}

impl Found {
    /// Where not all was listed, a file without its other half proves nothing.
    fn keep_pairs(&mut self) {
        self.data.retain(|block| self.sums.contains(block));
        self.sums.retain(|block| self.data.contains(block));
    }
}

/// `found` has what was listed, also after an error.
fn list(dir: &Path, found: &mut Found) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let named = named(&entry.file_name());
        if named != Named::Other && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.strange.push(entry.path());
            continue;
        }
        match named {
            Named::Data(block) => found.data.insert(block),
            Named::Sums(block) => found.sums.insert(block),
            Named::Other => false,
        };
    }
    Ok(())
}

fn remove_pair(pair: &Pair, container: ContainerId) -> Result<()> {
    remove(&pair.data).and_then(|()| remove(&pair.sums)).map_err(io(DiskOp::Remove("an open replica"), container))
}

fn io(op: DiskOp, container: ContainerId) -> impl Fn(std::io::Error) -> ReplicaError {
    move |source| ReplicaError::Io { op, container, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The listing broke off: nothing is removed for want of what was not listed.
    #[test]
    fn of_half_a_listing_only_pairs_count() {
        let blocks = |all: &[u64]| all.iter().copied().map(BlockId).collect::<BTreeSet<_>>();
        let mut found = Found { data: blocks(&[1, 2]), sums: blocks(&[2, 3]), strange: Vec::new() };
        found.keep_pairs();
        assert_eq!((found.data, found.sums), (blocks(&[2]), blocks(&[2])));
    }
}
