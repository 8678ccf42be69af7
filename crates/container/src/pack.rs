//! The pack of one container: small replicas, one record after the other in one file.
//!
//! Promise: records are written in order and synced together, so a record that was promised has only whole records
//! before it; whatever a crash leaves behind the last whole one is cut off. The records' form: [`crate::record`].

use crate::group::GroupSync;
use crate::record::RecordHeader;
use crate::replica::Identity;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{ChecksumKind, ContainerId};

/// Punching a hole costs as much as writing a page, and gives whole pages back: of shorter records there are none or few.
const PUNCHED_LEN_MIN: u64 = 16 << 10;

#[derive(Debug)]
pub(crate) struct Pack {
    pub container: ContainerId,
    pub file: Arc<File>,
    tail: Mutex<Tail>,
    held: Mutex<HashMap<u64, Held>>,
    group: GroupSync,
    /// Its name is on disk, and those of the directories above.
    pub named: AtomicBool,
    /// Of records buried since somebody last looked for space to give back.
    dead_len: AtomicU64,
    /// How far [`crate::compact`] has come in this pack.
    pub sweep: Mutex<Sweep>,
}

/// A way through a pack from its beginning to its end.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Where to go on; `None`: none is under way.
    pub at: Option<u64>,
}

/// Records that lie behind each other.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub from: u64,
    pub to: u64,
    /// Those that are not dead.
    pub live: Vec<(u64, RecordHeader)>,
    /// There is something that cannot be read as a record.
    pub damaged: bool,
}

/// Holds a record's bytes for a reader: they stay, though the record is buried meanwhile, until the last of these is gone.
#[derive(Debug)]
pub(crate) struct RecordHold {
    pack: Arc<Pack>,
    offset: u64,
}

/// Who reads a record, and whether its space waits for them.
#[derive(Debug, Default)]
struct Held {
    reader_count: u64,
    buried: bool,
}

#[derive(Debug)]
struct Tail {
    end: u64,
    /// Starts of records that are written but not in the index yet.
    in_flight: BTreeSet<u64>,
    /// The file was removed; whoever holds this opens it anew.
    removed: bool,
}

impl Pack {
    /// Opens the pack and finds its end, from `known` on. `found` is shown every whole record there, dead ones too.
    pub(crate) fn open(
        path: &Path,
        container: ContainerId,
        known: u64,
        create: bool,
        found: impl FnMut(u64, &RecordHeader),
    ) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)?;
        let end = scan(&file, known, found)?;
        if file.metadata()?.len() > end {
            // Or the rest of a torn record would lie behind a shorter one that takes its place, and be looked through.
            file.set_len(end)?;
        }
        let tail = Tail { end, in_flight: BTreeSet::new(), removed: false };
        Ok(Self {
            container,
            file: Arc::new(file),
            tail: Mutex::new(tail),
            held: Mutex::default(),
            group: GroupSync::default(),
            named: AtomicBool::new(false),
            dead_len: AtomicU64::new(0),
            sweep: Mutex::default(),
        })
    }

    /// Writes a record behind the last one and returns where; `None` if the pack was removed meanwhile. It counts as in
    /// flight until [`Pack::landed`]. Nothing is promised before [`Pack::sync`].
    #[cfg(test)]
    pub(crate) fn append(&self, record: &[u8]) -> Result<Option<u64>> {
        self.append_all(record, &[0])
    }

    /// As `append`, for several records in a row, of which the one with number n begins at `starts[n]` of `records`. Returns where
    /// the first is.
    pub(crate) fn append_all(&self, records: &[u8], starts: &[u64]) -> Result<Option<u64>> {
        assert_eq!(records.len() as u64 % RecordHeader::ALIGN, 0, "records keep the alignment");
        let mut tail = self.tail();
        if tail.removed {
            return Ok(None);
        }
        // Under the lock, so that a later record is never synced before an earlier one is written.
        let offset = tail.end;
        self.file.write_all_at(records, offset)?;
        tail.end += records.len() as u64;
        tail.in_flight.extend(starts.iter().map(|start| offset + start));
        Ok(Some(offset))
    }

    /// All records appended so far are on disk when this returns.
    pub(crate) fn sync(&self) -> Result<()> {
        self.group.sync(|| io::file::sync_data(&self.file))
    }

    /// The record at `offset` is in the index, or never will be. Returns the offset below which none is in flight. Call
    /// it inside the index change that records it, so that no other change can run ahead of this one.
    pub(crate) fn landed(&self, offset: u64) -> u64 {
        let mut tail = self.tail();
        tail.in_flight.remove(&offset);
        tail.in_flight.first().copied().unwrap_or(tail.end)
    }

    /// Where the next record will start.
    pub(crate) fn end(&self) -> u64 {
        self.tail().end
    }

    /// The record's header, if there is one at `offset`.
    pub(crate) fn header_at(&self, offset: u64) -> Result<Option<RecordHeader>> {
        let mut bytes = [0; RecordHeader::LEN];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(RecordHeader::decode(&bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the bytes of a record for a reader. Look at the header after this, not before.
    pub(crate) fn hold(self: &Arc<Self>, offset: u64) -> RecordHold {
        self.held().entry(offset).or_default().reader_count += 1;
        RecordHold { pack: Arc::clone(self), offset }
    }

    /// Marks the record dead. The space of a longer one comes back as soon as nobody reads it any more, that of short ones when
    /// [`crate::compact`] comes by.
    pub(crate) fn bury(&self, offset: u64) -> Result<()> {
        let mut held = self.held();
        let Some(header) = self.header_at(offset)?.filter(|header| !header.dead) else { return Ok(()) };
        self.file.write_all_at(&RecordHeader::DEAD_MARK, offset + RecordHeader::DEAD_OFFSET)?;
        self.dead_len.fetch_add(header.record_len(), Ordering::Relaxed);
        match held.get_mut(&offset) {
            Some(held) => {
                held.buried = true;
                Ok(())
            }
            None => self.punch(offset),
        }
    }

    fn punch(&self, offset: u64) -> Result<()> {
        let Some(header) = self.header_at(offset)?.filter(|header| header.dead) else { return Ok(()) };
        if header.record_len() < PUNCHED_LEN_MIN {
            return Ok(());
        }
        let body = offset + header.sums_offset();
        match io::file::punch_hole(&self.file, body, offset + header.record_len() - body) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    pub(crate) fn dead_len(&self) -> u64 {
        self.dead_len.load(Ordering::Relaxed)
    }

    pub(crate) fn set_dead_len(&self, len: u64) {
        self.dead_len.store(len, Ordering::Relaxed);
    }

    /// Records from `from` on, about `len` bytes of them, none that is in flight. `None` at the end.
    pub(crate) fn stretch(&self, from: u64, len: u64) -> Result<Option<Stretch>> {
        let end = {
            let tail = self.tail();
            if tail.removed { 0 } else { tail.in_flight.first().copied().unwrap_or(tail.end) }
        };
        let mut stretch = Stretch { from, to: from, live: Vec::new(), damaged: false };
        while stretch.to < end && stretch.to - stretch.from < len {
            let at = stretch.to;
            match self.header_at(at)? {
                Some(header) => {
                    if !header.dead {
                        stretch.live.push((at, header));
                    }
                    stretch.to = at + header.record_len();
                }
                None => {
                    let mut bytes = [0; RecordHeader::LEN];
                    self.file.read_exact_at(&mut bytes, at)?;
                    stretch.damaged |= bytes != [0; RecordHeader::LEN];
                    let Some(data) = io::file::next_data(&self.file, at + RecordHeader::ALIGN)? else {
                        return Ok(None);
                    };
                    // A hole begins and ends with a page, records do not.
                    let data = (data / RecordHeader::ALIGN * RecordHeader::ALIGN).max(at + RecordHeader::ALIGN);
                    stretch.to = next_magic(&self.file, data, end)?;
                    if stretch.live.is_empty() && !stretch.damaged {
                        stretch.from = stretch.to; // nothing was there
                    }
                }
            }
        }
        Ok((stretch.to > stretch.from).then_some(stretch))
    }

    /// The bytes of a record's body, if they are as they were written.
    pub(crate) fn body(&self, offset: u64, header: &RecordHeader) -> Result<Option<Vec<u8>>> {
        let mut body = vec![0; (header.sums_len() + u64::from(header.data_len)) as usize];
        self.file.read_exact_at(&mut body, offset + header.sums_offset())?;
        Ok((ChecksumKind::Crc32c.of(&body) == header.body_crc).then_some(body))
    }

    /// Whether there is a record at `offset` that is as it was written.
    pub(crate) fn reads(&self, offset: u64) -> Result<bool> {
        match self.header_at(offset)? {
            Some(header) => Ok(self.body(offset, &header)?.is_some()),
            None => Ok(false),
        }
    }

    /// Gives the space of records back that no row names any more. False: somebody still reads one of them.
    pub(crate) fn clear(&self, from: u64, to: u64) -> Result<bool> {
        // Whoever comes to read a record now holds it first and looks at its header then: it is gone.
        let held = self.held();
        if held.keys().any(|offset| (from..to).contains(offset)) {
            return Ok(false);
        }
        io::file::punch_hole(&self.file, from, to - from)?;
        Ok(true)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes another owner into the record's header.
    pub(crate) fn rename(&self, offset: u64, identity: Identity) -> Result<()> {
        match self.header_at(offset)? {
            Some(header) if header.identity.block == identity.block => {
                self.file.write_all_at(&RecordHeader { identity, ..header }.encode(), offset)
            }
            _ => Ok(()),
        }
    }

    /// Runs `remove` if nothing is in flight, and lets nobody append afterwards.
    pub(crate) fn remove_if_idle(&self, remove: impl FnOnce() -> Result<()>) -> Result<bool> {
        let mut tail = self.tail();
        if tail.removed || !tail.in_flight.is_empty() {
            return Ok(false);
        }
        remove()?;
        tail.removed = true;
        Ok(true)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // The end moves only after a whole record was written, so a panic elsewhere leaves it true.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RecordHold {
    fn drop(&mut self) {
        let mut all = self.pack.held();
        let Some(held) = all.get_mut(&self.offset) else { return };
        held.reader_count -= 1;
        if held.reader_count > 0 {
            return;
        }
        let buried = held.buried;
        all.remove(&self.offset);
        drop(all);
        if buried && let Err(error) = self.pack.punch(self.offset) {
            tracing::warn!(container = %self.pack.container, %error, "the space of a deleted record stays taken");
        }
    }
}

/// Walks the records from `from` on and returns where the last whole one ends.
pub(crate) fn scan(file: &File, from: u64, mut found: impl FnMut(u64, &RecordHeader)) -> Result<u64> {
    let file_len = file.metadata()?.len();
    let mut end = from;
    let mut at = from;
    while at + RecordHeader::LEN as u64 <= file_len {
        let mut bytes = [0; RecordHeader::LEN];
        file.read_exact_at(&mut bytes, at)?;
        match RecordHeader::decode(&bytes) {
            Some(header) if at + header.record_len() <= file_len && is_whole(file, at, &header)? => {
                found(at, &header);
                at += header.record_len();
                end = at;
            }
            // Its body is torn or damaged. A client chose those bytes: nothing in them is a record, whatever it looks like.
            Some(header) => at += header.record_len(),
            // A torn record, or a damaged header amid sound records: what follows is looked through for the next whole
            // one, so that one bad sector does not hide the rest of the pack.
            _ => at = next_magic(file, at + RecordHeader::ALIGN, file_len)?,
        }
    }
    Ok(end)
}

/// A dead record has no body any more.
fn is_whole(file: &File, at: u64, header: &RecordHeader) -> Result<bool> {
    if header.dead {
        return Ok(true);
    }
    let mut body = vec![0; (header.sums_len() + u64::from(header.data_len)) as usize];
    file.read_exact_at(&mut body, at + header.sums_offset())?;
    Ok(ChecksumKind::Crc32c.of(&body) == header.body_crc)
}

/// The next place at or behind `at` that starts like a record; `file_len` if there is none.
fn next_magic(file: &File, mut at: u64, file_len: u64) -> Result<u64> {
    let mut window = vec![0; 1 << 20];
    while at < file_len {
        let len = (window.len() as u64).min(file_len - at) as usize;
        file.read_exact_at(&mut window[..len], at)?;
        let place = window[..len].chunks(RecordHeader::ALIGN as usize).position(|piece| piece.starts_with(b"LVPK"));
        if let Some(place) = place {
            return Ok(at + place as u64 * RecordHeader::ALIGN);
        }
        at += len as u64;
    }
    Ok(file_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{BlockId, ChecksumSpec, Generation, InodeId};

    fn record(index: u32, len: usize) -> Vec<u8> {
        let identity = Identity {
            block: BlockId::new(ContainerId(7), index),
            generation: Generation(1001),
            file: InodeId(1),
            home: ContainerId(7),
            checksum: ChecksumSpec::DEFAULT,
        };
        let data = vec![index as u8; len];
        let mut sums = Vec::new();
        identity.checksum.compute(&data, &mut sums);
        RecordHeader::record(identity, &data, &sums).1
    }

    fn open(path: &Path) -> (Pack, Vec<(u32, bool)>) {
        let mut found = Vec::new();
        let pack = Pack::open(path, ContainerId(7), 0, true, |_, header| {
            found.push((header.identity.block.index(), header.dead));
        });
        (pack.unwrap(), found)
    }

    /// The process dies with a record half written: the whole ones are found, and the next append takes its place.
    #[test]
    fn a_torn_record_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let (pack, _) = open(&path);
        pack.append(&record(1, 1000)).unwrap();
        let torn = pack.append(&record(2, 5000)).unwrap().unwrap();
        pack.file.set_len(torn + 640).unwrap();
        let (pack, found) = open(&path);
        assert_eq!(found, [(1, false)]);
        assert_eq!(pack.append(&record(3, 10)).unwrap(), Some(torn));
        assert_eq!(open(&path).1, [(1, false), (3, false)]);
    }

    /// A client stores a file that looks like a record. It stays data, also when a crash tears the record around it.
    #[test]
    fn a_record_inside_a_record_is_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let inner = record(9, 100);
        let spec = ChecksumSpec { chunk_len: 1 << 20, ..ChecksumSpec::DEFAULT };
        // So that it lies on a record's alignment: 64 bytes of header, one checksum, 60 bytes, then it.
        let data = [vec![1; 60], inner.clone(), vec![1; 3000]].concat();
        let mut sums = Vec::new();
        spec.compute(&data, &mut sums);
        let identity =
            Identity { checksum: spec, ..RecordHeader::decode(inner.first_chunk().unwrap()).unwrap().identity };
        let outer =
            RecordHeader::record(Identity { block: BlockId::new(ContainerId(7), 2), ..identity }, &data, &sums).1;
        assert_eq!(outer[128..][..inner.len()], inner);
        let (pack, _) = open(&path);
        pack.append(&record(1, 100)).unwrap();
        let torn = pack.append(&outer).unwrap().unwrap();
        pack.file.write_all_at(&[0; 8], torn + 2000).unwrap();
        let (pack, found) = open(&path);
        assert_eq!(found, [(1, false)]);
        assert_eq!(pack.append(&record(3, 0)).unwrap(), Some(torn));
        assert_eq!(open(&path).1, [(1, false), (3, false)], "nor is what the next record leaves of it");
    }

    #[test]
    fn a_damaged_header_hides_its_record_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let (pack, _) = open(&path);
        let offsets: Vec<u64> = (1..5).map(|index| pack.append(&record(index, 3000)).unwrap().unwrap()).collect();
        pack.file.write_all_at(&[0xff], offsets[1] + 20).unwrap();
        pack.bury(offsets[2]).unwrap();
        let (pack, found) = open(&path);
        assert_eq!(found, [(1, false), (3, true), (4, false)]);
        assert!(pack.append(&record(5, 1)).unwrap().unwrap() > offsets[3]);
    }

    #[test]
    fn what_is_known_stops_at_the_first_record_in_flight() {
        let dir = tempfile::tempdir().unwrap();
        let (pack, _) = open(&dir.path().join("pack"));
        let offsets: Vec<u64> = (1..4).map(|index| pack.append(&record(index, 100)).unwrap().unwrap()).collect();
        assert_eq!(pack.landed(offsets[1]), offsets[0]);
        assert!(!pack.remove_if_idle(|| Ok(())).unwrap());
        assert_eq!(pack.landed(offsets[0]), offsets[2]);
        assert_eq!(pack.landed(offsets[2]), offsets[2] + record(3, 100).len() as u64);
        assert!(pack.remove_if_idle(|| Ok(())).unwrap());
        assert_eq!(pack.append(&record(4, 1)).unwrap(), None);
    }
}
