//! The pack of one container: small replicas, one record after the other in one file.
//!
//! Promise: records are written in order and synced together, so a record that was promised has only whole records
//! before it; whatever a crash leaves behind the last whole one is cut off. What cannot be read, or looks like a record
//! of another salt, hides itself alone: it is not cut off, and no record is put where it may reach. The records' form:
//! [`crate::record`].

use crate::errno::is_lost;
use crate::group_sync::GroupSync;
use crate::record::{RecordHeader, Records, Seat};
use crate::replica::Identity;
use crate::version::Salt;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{ChecksumKind, ContainerId};

/// Punching a hole costs as much as writing a page, and gives whole pages back: of shorter records there are none or
/// few.
const PUNCHED_LEN_MIN: u64 = 16 << 10;

/// Places of a pack that do not read: with more of them it is given up until the next start, since each takes the disk
/// seconds.
const UNREADABLE_COUNT_MAX: usize = 64;
/// How far apart they are told: what a disk reads at once.
const SECTOR_LEN: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Pack {
    pub container: ContainerId,
    salt: Salt,
    /// The first place that did not read when the pack was opened. The next start looks through all behind it again.
    pub unreadable: Option<u64>,
    /// Something behind the last whole record looks like one, and is none.
    pub foreign: Option<u64>,
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
    /// Longer writes are cut short, and fail.
    #[cfg(test)]
    write_len_max: AtomicU64,
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

/// Holds a record's bytes for a reader: they stay, though the record is buried meanwhile, until the last of these is
/// gone.
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
    /// Some of what lies behind the end was written by an append that failed.
    torn: bool,
}

impl Pack {
    /// Opens the pack and finds its end, from `known` on. `found` is shown every whole record there, dead ones too.
    pub(crate) fn open(
        path: &Path,
        place: (Salt, ContainerId),
        known: u64,
        create: bool,
        found: impl FnMut(u64, &RecordHeader),
    ) -> Result<Self> {
        let (salt, container) = place;
        let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)?;
        let file_len = file.metadata()?.len();
        // A loss of power may leave less of the file than the index has heard of.
        let first = Seat { salt, container, offset: if file_len < known { 0 } else { known } };
        let mut scanned = scan(&file, file_len, first, found)?;
        scanned.end = scanned.end.max(known);
        if !scanned.tail_stays() && file_len > scanned.end {
            // Or the rest of a torn record would lie behind a shorter one that takes its place, and be looked through.
            file.set_len(scanned.end)?;
        }
        let end = scanned.next_start(file_len).max(known);
        let tail = Tail { end, in_flight: BTreeSet::new(), removed: false, torn: false };
        Ok(Self {
            container,
            salt,
            unreadable: scanned.unreadable,
            foreign: scanned.foreign,
            file: Arc::new(file),
            tail: Mutex::new(tail),
            held: Mutex::default(),
            group: GroupSync::default(),
            named: AtomicBool::new(false),
            dead_len: AtomicU64::new(0),
            sweep: Mutex::default(),
            #[cfg(test)]
            write_len_max: AtomicU64::new(u64::MAX),
        })
    }

    /// Writes records behind the last one and returns where the first is; `None` if the pack was removed meanwhile.
    /// They count as in flight until [`Pack::landed`]. Nothing is promised before [`Pack::sync`].
    pub(crate) fn append_all(&self, records: &mut Records) -> Result<Option<u64>> {
        let mut tail = self.tail();
        if tail.removed {
            return Ok(None);
        }
        // Under the lock, so that a later record is never synced before an earlier one is written.
        let offset = tail.end;
        let bytes = records.bytes_at(self.seat(offset));
        assert_eq!(bytes.len() as u64 % RecordHeader::ALIGN, 0, "records keep the alignment");
        if tail.torn {
            self.file.set_len(offset)?;
            tail.torn = false;
        }
        if let Err(error) = self.write(bytes, offset) {
            // Whole records of a batch that failed would outlast a shorter one in its place, and be found behind it.
            tail.torn = self.file.set_len(offset).is_err();
            return Err(error);
        }
        tail.end += bytes.len() as u64;
        tail.in_flight.extend(records.starts().map(|start| offset + start));
        Ok(Some(offset))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        #[cfg(test)]
        if let Some(part) = bytes.get(..self.write_len_max.load(Ordering::Relaxed) as usize) {
            self.file.write_all_at(part, offset)?;
            return Err(ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(bytes, offset)
    }

    fn seat(&self, offset: u64) -> Seat {
        Seat { salt: self.salt, container: self.container, offset }
    }

    /// All records appended so far are on disk when this returns.
    pub(crate) fn sync(&self) -> Result<()> {
        self.group.sync(|| io::file::sync_data(&self.file))
    }

    /// The record at `offset` is in the index, or never will be. Returns the offset below which none is in flight, and
    /// all was read. Call it inside the index change that records it, so that no other change can run ahead of this
    /// one.
    pub(crate) fn landed(&self, offset: u64) -> u64 {
        let mut tail = self.tail();
        tail.in_flight.remove(&offset);
        let known = tail.in_flight.first().copied().unwrap_or(tail.end);
        self.unreadable.map_or(known, |place| place.min(known))
    }

    /// Where the next record will start.
    pub(crate) fn end(&self) -> u64 {
        self.tail().end
    }

    /// The record's header, if there is one at `offset`.
    pub(crate) fn header_at(&self, offset: u64) -> Result<Option<RecordHeader>> {
        let mut bytes = [0; RecordHeader::LEN];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(RecordHeader::decode(&bytes, self.seat(offset))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the bytes of a record for a reader. Look at the header after this, not before.
    pub(crate) fn hold(self: &Arc<Self>, offset: u64) -> RecordHold {
        self.held().entry(offset).or_default().reader_count += 1;
        RecordHold { pack: Arc::clone(self), offset }
    }

    /// Marks the record dead. The space of a longer one comes back as soon as nobody reads it any more, that of short
    /// ones when [`crate::compact`] comes by.
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
                    let next = at + RecordHeader::ALIGN;
                    stretch.to = next_magic(&*self.file, next, end, &mut Unreadable::default())?;
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
                self.file.write_all_at(&RecordHeader { identity, ..header }.encode(self.seat(offset)), offset)
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

/// What a way through a pack came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Where the last whole record ends.
    pub end: u64,
    /// The first place that did not read.
    pub unreadable: Option<u64>,
    /// The last place behind `end` that looks like a record and is none.
    pub foreign: Option<u64>,
    /// How far what lies behind `end` may reach, once it reads.
    claimed: u64,
}

impl Scanned {
    /// What does not read may do so tomorrow, and what looks like a record may be one by the salt that was lost.
    fn tail_stays(&self) -> bool {
        self.unreadable.is_some() || self.foreign.is_some()
    }

    /// Where the next record goes: nowhere that a header found later could claim, or a scan would jump over it.
    fn next_start(&self, file_len: u64) -> u64 {
        if self.tail_stays() { file_len.next_multiple_of(RecordHeader::ALIGN).max(self.claimed) } else { self.end }
    }
}

/// Places that did not read.
#[derive(Debug, Default)]
struct Unreadable {
    first: Option<u64>,
    last: Option<u64>,
    count: usize,
}

impl Unreadable {
    /// True if what was read at `at` is there, false if the disk has lost it.
    fn look(&mut self, at: u64, read: Result<()>) -> Result<bool> {
        match read {
            Err(error) if is_lost(&error) => {
                self.first.get_or_insert(at);
                self.last = self.last.max(Some(at));
                self.count += 1;
                if self.count > UNREADABLE_COUNT_MAX { Err(error) } else { Ok(false) }
            }
            read => read.map(|()| true),
        }
    }
}

/// Walks the records of a pack of `file_len` bytes, from `first` on.
pub(crate) fn scan(
    file: &impl Pierced,
    file_len: u64,
    first: Seat,
    mut found: impl FnMut(u64, &RecordHeader),
) -> Result<Scanned> {
    let (mut end, mut at, mut unreadable) = (first.offset, first.offset, Unreadable::default());
    let (mut foreign, mut claimed) = (None, 0);
    while at + RecordHeader::LEN as u64 <= file_len {
        let mut bytes = [0; RecordHeader::LEN];
        let reads = unreadable.look(at, file.read_exact_at(&mut bytes, at))?;
        match RecordHeader::decode(&bytes, Seat { offset: at, ..first }).filter(|_| reads) {
            Some(header) if at + header.record_len() <= file_len && is_whole(file, at, &header, &mut unreadable)? => {
                found(at, &header);
                at += header.record_len();
                end = at;
            }
            // Its body is torn or damaged: nothing in it is a record.
            Some(header) => {
                at += header.record_len();
                claimed = at;
            }
            // A torn record, or a damaged header amid sound records: what follows is looked through for the next whole
            // one, so that one bad sector does not hide the rest of the pack.
            None => {
                if reads && bytes.starts_with(b"LVPK") {
                    foreign = Some(at);
                }
                at = next_magic(file, at + RecordHeader::ALIGN, file_len, &mut unreadable)?;
            }
        }
    }
    let foreign = foreign.filter(|place| *place >= end);
    // A header that was not read reaches as far as the longest.
    let hidden = unreadable.last.max(foreign).filter(|place| *place >= end);
    let reach = hidden
        .map_or(0, |place| (place + SECTOR_LEN + RecordHeader::RECORD_LEN_MAX).next_multiple_of(RecordHeader::ALIGN));
    Ok(Scanned { end, unreadable: unreadable.first, foreign, claimed: claimed.max(reach).max(end) })
}

/// A dead record has no body any more.
fn is_whole(file: &impl FileExt, at: u64, header: &RecordHeader, unreadable: &mut Unreadable) -> Result<bool> {
    if header.dead {
        return Ok(true);
    }
    let mut body = vec![0; (header.sums_len() + u64::from(header.data_len)) as usize];
    let reads = unreadable.look(at, file.read_exact_at(&mut body, at + header.sums_offset()))?;
    Ok(reads && ChecksumKind::Crc32c.of(&body) == header.body_crc)
}

/// A file that may have holes.
pub(crate) trait Pierced: FileExt {
    /// The next place at or behind `at` that is in no hole, as far as that is known.
    fn next_data(&self, at: u64) -> Result<Option<u64>>;
}

impl Pierced for File {
    fn next_data(&self, at: u64) -> Result<Option<u64>> {
        io::file::next_data(self, at)
    }
}

/// The next place at or behind `at` that starts like a record; `file_len` if there is none.
fn next_magic(file: &impl Pierced, mut at: u64, file_len: u64, unreadable: &mut Unreadable) -> Result<u64> {
    let mut window = vec![0; 1 << 20];
    // Where a window does not read, its sectors are tried one by one.
    let mut by_sectors_until = 0;
    while at < file_len {
        // A disk that does not tell is read.
        if let Ok(data) = file.next_data(at) {
            // A hole begins and ends with a page, records do not.
            at = data.map_or(file_len, |data| (data / RecordHeader::ALIGN * RecordHeader::ALIGN).max(at));
            if at >= file_len {
                break;
            }
        }
        let by_sectors = at < by_sectors_until;
        let step = if by_sectors { SECTOR_LEN - at % SECTOR_LEN } else { window.len() as u64 };
        let piece = &mut window[..step.min(file_len - at) as usize];
        let len = piece.len() as u64;
        let reads = match file.read_exact_at(piece, at) {
            Err(error) if !by_sectors && is_lost(&error) => {
                by_sectors_until = at + len;
                continue;
            }
            read => unreadable.look(at, read)?,
        };
        let place = piece.chunks(RecordHeader::ALIGN as usize).position(|bytes| bytes.starts_with(b"LVPK"));
        if let Some(place) = place.filter(|_| reads) {
            return Ok(at + place as u64 * RecordHeader::ALIGN);
        }
        at += len;
    }
    Ok(file_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use types::{BlockId, ChecksumSpec, Generation, InodeId};

    const PLACE: (Salt, ContainerId) = (Salt([7; 16]), ContainerId(7));
    const START: Seat = Seat { salt: PLACE.0, container: PLACE.1, offset: 0 };

    fn identity(index: u32) -> Identity {
        Identity {
            block: BlockId::new(ContainerId(7), index),
            generation: Generation(1001),
            file: InodeId(1),
            home: ContainerId(7),
            checksum: ChecksumSpec::DEFAULT,
        }
    }

    fn of(identity: Identity, data: &[u8]) -> Records {
        let (mut sums, mut records) = (Vec::new(), Records::default());
        identity.checksum.compute(data, &mut sums);
        records.push(identity, data, &sums);
        records
    }

    fn record(index: u32, len: usize) -> Records {
        of(identity(index), &vec![index as u8; len])
    }

    fn append(pack: &Pack, mut records: Records) -> Option<u64> {
        pack.append_all(&mut records).unwrap()
    }

    fn open(path: &Path) -> (Pack, Vec<(u32, bool)>) {
        let mut found = Vec::new();
        let pack = Pack::open(path, PLACE, 0, true, |_, header| {
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
        append(&pack, record(1, 1000));
        let torn = append(&pack, record(2, 5000)).unwrap();
        pack.file.set_len(torn + 640).unwrap();
        let (pack, found) = open(&path);
        assert_eq!(found, [(1, false)]);
        assert_eq!(append(&pack, record(3, 10)), Some(torn));
        assert_eq!(open(&path).1, [(1, false), (3, false)]);
    }

    /// A client stores a file that looks like a record. It stays data, also when a crash tears the record around it, or
    /// that one's header is lost.
    #[test]
    fn a_record_inside_a_record_is_data() {
        for header_lost in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pack");
            let inner = record(9, 100).bytes_at(START).to_vec();
            let spec = ChecksumSpec { chunk_len: 1 << 20, ..ChecksumSpec::DEFAULT };
            // So that it lies on a record's alignment: 64 bytes of header, one checksum, 60 bytes, then it.
            let data = [vec![1; 60], inner.clone(), vec![1; 3000]].concat();
            let mut outer = of(Identity { checksum: spec, ..identity(2) }, &data);
            assert_eq!(outer.bytes_at(START)[128..][..inner.len()], inner);
            let (pack, _) = open(&path);
            append(&pack, record(1, 100));
            let torn = append(&pack, outer).unwrap();
            let place = if header_lost { torn } else { torn + 2000 };
            pack.file.write_all_at(&[0; 8], place).unwrap();
            let (pack, found) = open(&path);
            assert_eq!(found, [(1, false)]);
            let next = append(&pack, record(3, 0)).unwrap();
            assert_eq!(next == torn, !header_lost, "it may be a record by another salt, and stays");
            assert_eq!(open(&path).1, [(1, false), (3, false)], "nor is what the next record leaves of it");
        }
    }

    #[test]
    fn a_damaged_header_hides_its_record_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let (pack, _) = open(&path);
        let offsets: Vec<u64> = (1..5).map(|index| append(&pack, record(index, 3000)).unwrap()).collect();
        pack.file.write_all_at(&[0xff], offsets[1] + 20).unwrap();
        pack.bury(offsets[2]).unwrap();
        let (pack, found) = open(&path);
        assert_eq!(found, [(1, false), (3, true), (4, false)]);
        assert!(append(&pack, record(5, 1)).unwrap() > offsets[3]);
    }

    /// A file on a disk that has lost some sectors.
    struct Holed<'a>(&'a File, &'a [u64]);

    impl FileExt for Holed<'_> {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
            let lost = |at: &u64| *at < offset + bytes.len() as u64 && offset < *at + SECTOR_LEN;
            if self.1.iter().any(lost) { Err(Errno::IO.into()) } else { self.0.read_at(bytes, offset) }
        }

        fn write_at(&self, _: &[u8], _: u64) -> Result<usize> {
            unreachable!("it is only read")
        }
    }

    impl Pierced for Holed<'_> {
        fn next_data(&self, at: u64) -> Result<Option<u64>> {
            Ok(Some(at))
        }
    }

    #[test]
    fn a_sector_that_does_not_read_hides_what_lies_in_it_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (pack, _) = open(&dir.path().join("pack"));
        let offsets: Vec<u64> = (0..400).map(|index| append(&pack, record(index, 5000)).unwrap()).collect();
        let scan = |sectors: &[u64]| {
            let mut found = Vec::new();
            let scanned = scan(&Holed(&pack.file, sectors), pack.end(), START, |at, _| found.push(at));
            scanned.map(|scanned| (scanned, found))
        };
        let sector = |offset: u64| offset / SECTOR_LEN * SECTOR_LEN;
        let lost = [sector(offsets[3]), sector(offsets[200] + 4000)];
        let (scanned, found) = scan(&lost).unwrap();
        let touched = |at: &u64| lost.iter().any(|lost| *at < lost + SECTOR_LEN && *lost < at + record(0, 5000).len());
        let want: Vec<u64> = offsets.iter().copied().filter(|at| !touched(at)).collect();
        assert_eq!((scanned.end, found), (pack.end(), want));
        assert!(scanned.unreadable.is_some_and(|first| first >= offsets[2] && first <= offsets[3]));
        let all: Vec<u64> = (0..pack.end()).step_by(SECTOR_LEN as usize).collect();
        let ended = Errno::from_io_error(&scan(&all).unwrap_err());
        assert_eq!(ended, Some(Errno::IO), "a disk that is lost is not asked for ever");
    }

    /// Power goes while a record is written, and another sector does not read just then. Whether the torn record's
    /// header is in that sector or not: what is appended afterwards lies where no header claims it, and is found when
    /// all reads.
    #[test]
    fn nothing_is_appended_where_a_torn_record_may_reach() {
        for header_lost in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (pack, _) = open(&dir.path().join("pack"));
            let offsets: Vec<u64> = (0..9).map(|index| append(&pack, record(index, 5000)).unwrap()).collect();
            let torn = append(&pack, record(9, 500_000)).unwrap();
            let file_len = torn + 10_000;
            pack.file.set_len(file_len).unwrap();
            let place = if header_lost { torn } else { offsets[3] };
            let lost = [place / SECTOR_LEN * SECTOR_LEN];
            let scanned = scan(&Holed(&pack.file, &lost), file_len, START, |_, _| {}).unwrap();
            assert!(scanned.tail_stays());
            let next = Seat { offset: scanned.next_start(file_len), ..START };
            pack.file.write_all_at(record(10, 300).bytes_at(next), next.offset).unwrap();
            let (pack, found) = open(&dir.path().join("pack"));
            assert_eq!(found.last(), Some(&(10, false)), "header lost: {header_lost}");
            assert_eq!(pack.end(), next.offset + record(10, 300).len());
        }
    }

    /// The next start reads again what did not read, however much was put behind it.
    #[test]
    fn what_did_not_read_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let (mut pack, _) = open(&dir.path().join("pack"));
        pack.unreadable = Some(4096);
        let offset = append(&pack, record(1, 9000)).unwrap();
        assert_eq!(pack.landed(offset), 4096);
    }

    /// A pack of another salt, as after a loss of VERSION: not a byte goes.
    #[test]
    fn records_of_another_salt_are_not_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let (pack, _) = open(&path);
        assert!((1..4).all(|index| append(&pack, record(index, 3000)).is_some()));
        let before = std::fs::read(&path).unwrap();
        let (salt, container) = (Salt([8; 16]), PLACE.1);
        let other = Pack::open(&path, (salt, container), 0, false, |_, _| panic!("no record")).unwrap();
        assert!(other.foreign.is_some());
        append(&other, record(4, 100)).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(&before));
        assert_eq!(open(&path).1, [(1, false), (2, false), (3, false)]);
    }

    /// An append of four records fails after three of them, and a shorter one takes its place: they do not turn up
    /// again.
    #[test]
    fn records_of_an_append_that_failed_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let (pack, _) = open(&path);
        append(&pack, record(1, 100));
        let mut batch = Records::default();
        for index in 2..6 {
            let (spec, data) = (identity(index).checksum, vec![index as u8; 1000]);
            let mut sums = Vec::new();
            spec.compute(&data, &mut sums);
            batch.push(identity(index), &data, &sums);
        }
        pack.write_len_max.store(batch.len() * 3 / 4 + 64, Ordering::Relaxed);
        assert_eq!(pack.append_all(&mut batch).unwrap_err().kind(), ErrorKind::StorageFull);
        pack.write_len_max.store(u64::MAX, Ordering::Relaxed);
        append(&pack, record(6, 1000));
        assert_eq!(open(&path).1, [(1, false), (6, false)]);
    }

    #[test]
    fn what_is_known_stops_at_the_first_record_in_flight() {
        let dir = tempfile::tempdir().unwrap();
        let (pack, _) = open(&dir.path().join("pack"));
        let offsets: Vec<u64> = (1..4).map(|index| append(&pack, record(index, 100)).unwrap()).collect();
        assert_eq!(pack.landed(offsets[1]), offsets[0]);
        assert!(!pack.remove_if_idle(|| Ok(())).unwrap());
        assert_eq!(pack.landed(offsets[0]), offsets[2]);
        assert_eq!(pack.landed(offsets[2]), offsets[2] + record(3, 100).len());
        assert!(pack.remove_if_idle(|| Ok(())).unwrap());
        assert_eq!(append(&pack, record(4, 1)), None);
    }
}
