//! One file of the log: a head, then records one after the other.
//!
//! ```text
//! <number, 16 hex digits>.log
//! ┌──────────────┬────────┬────────┬─────┬────────┬───────────────────────┐
//! │ head (facts  │ record │ record │  …  │ record │ zeros, reserved space │
//! │ so far)      │        │        │     │        │                       │
//! └──────────────┴────────┴────────┴─────┴────────┴───────────────────────┘
//! ```
//!
//! Space is reserved when a segment is made, so that a sync need not write the file's length too (a third faster), and
//! a full disk is noticed then. A segment gets its name when its head is on disk, so one without a head is damage.

use crate::disk::{Disk, Paper};
use crate::record::{Facts, Head, Owner, Place, Record, may_begin};
use std::io;
use std::path::Path;

/// A new segment has this name until its head is on disk.
const UNNAMED: &str = "new";

/// Zeros written ahead at once: a quarter of a millisecond, each thousand entries or so.
const ZEROED_LEN: u64 = 256 << 10;
/// With less ahead, more is written.
const PREPARED_LEN_MIN: u64 = 64 << 10;

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) sequence: u64,
    salt: u64,
    file: Box<dyn Paper>,
    len: u64,
    /// As far as the disk is known to have it.
    synced: u64,
    /// Up to here the file holds what was written, and zeros.
    zeroed: u64,
}

impl Segment {
    pub(crate) fn create(disk: &dyn Disk, owner: Owner, sequence: u64, salt: u64, facts: &Facts) -> io::Result<Self> {
        let mut bytes = Vec::new();
        Record::Head(Head::new(salt, owner, sequence, facts)).encode(Place::HEAD, 0, &mut bytes);
        let file = disk.create(UNNAMED)?;
        file.reserve(disk.segment_len())?;
        file.write_at(&bytes, 0)?;
        file.sync_all()?;
        let name = name_of(sequence);
        disk.rename(UNNAMED, &name)?;
        disk.sync_names()?;
        let len = bytes.len() as u64;
        Ok(Self { name, sequence, salt, file, len, synced: len, zeroed: len })
    }

    /// Goes on behind what was read.
    pub(crate) fn resume(disk: &dyn Disk, name: String, read: &Contents) -> io::Result<Self> {
        let file = disk.open(&name)?;
        if read.end == End::Torn {
            let path = disk.path().join(&name);
            tracing::warn!(path = %path.display(), kept = read.len, "the end of the Raft log was torn; cutting it");
            file.set_len(read.len)?;
        }
        file.reserve(disk.segment_len())?;
        // What was read may have been in the page cache alone; from here on it counts. After a sync that failed the
        // kernel takes it for written, and would sync nothing: so it is written once more.
        file.write_at(&read.doubtful, read.len - read.doubtful.len() as u64)?;
        file.sync_all()?;
        let Contents { head, len, .. } = read;
        Ok(Self { name, sequence: head.sequence, salt: head.salt, file, len: *len, synced: *len, zeroed: *len })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends `record` to `bytes`, which will be written next.
    pub(crate) fn encode(&self, record: &Record, bytes: &mut Vec<u8>) {
        let place = Place { salt: self.salt, offset: self.len + bytes.len() as u64 };
        record.encode(place, self.synced, bytes);
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes zeros ahead of the records. Where a file system has only reserved space, the first sync of each block
    /// must also write down that it is in use; where there are zeros, it writes the block alone. The next sync brings
    /// them to disk.
    pub(crate) fn prepare(&mut self, segment_len: u64) -> io::Result<()> {
        if self.len + PREPARED_LEN_MIN <= self.zeroed || self.zeroed >= segment_len {
            return Ok(());
        }
        let from = self.zeroed.max(self.len);
        let len = ZEROED_LEN.min(segment_len.saturating_sub(from));
        self.file.write_at(&vec![0; len as usize], from)?;
        self.zeroed = from + len;
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = self.len;
        Ok(())
    }

    /// Nothing will be written any more: the reserved space goes back.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        self.file.set_len(self.len)
    }
}

fn name_of(sequence: u64) -> String {
    format!("{sequence:016x}.log")
}

/// The segments of a directory, ascending.
pub(crate) fn list(disk: &dyn Disk) -> io::Result<Vec<(u64, String)>> {
    let mut found = Vec::new();
    for name in disk.names()? {
        let digits = name.strip_suffix(".log");
        if let Some(sequence) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            found.push((sequence, name_of(sequence)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// What a segment says.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) head: Head,
    pub(crate) records: Vec<Record>,
    /// Where the last valid record ends.
    pub(crate) len: u64,
    /// The last bytes before that: those of which no later record says that they are on disk.
    pub(crate) doubtful: Vec<u8>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Zeros, or the end of the file.
    Clean,
    /// Bytes that were being written when the machine stopped. Nobody was told that they are on disk.
    Torn,
    /// A later record says that this one was on disk.
    Damaged,
}

pub(crate) fn read(disk: &dyn Disk, name: &str) -> io::Result<Contents> {
    let unknown = || damage(&disk.path().join(name), "it does not begin with a head that this program knows");
    parse(&disk.read(name)?).ok_or_else(unknown)
}

/// `None`: it does not begin with a head.
pub(crate) fn parse(bytes: &[u8]) -> Option<Contents> {
    let first = Record::decode(bytes, Place::HEAD)?;
    let Record::Head(head) = first.record else { return None };
    let at = |offset: usize| Record::decode(&bytes[offset..], Place { salt: head.salt, offset: offset as u64 });
    let (mut len, mut synced) = (first.len, 0);
    let mut records = Vec::new();
    while let Some(found) = at(len) {
        synced = found.synced;
        len += found.len;
        records.push(found.record);
    }
    let rest = len..bytes.len();
    let end = if bytes[rest.clone()].iter().all(|byte| *byte == 0) {
        End::Clean
    } else {
        let known =
            |offset: usize| may_begin(&bytes[offset..]) && at(offset).is_some_and(|later| later.synced > len as u64);
        if rest.into_iter().any(known) { End::Damaged } else { End::Torn }
    };
    let doubtful = bytes[len.min(synced as usize)..len].to_vec();
    Some(Contents { head, records, len: len as u64, doubtful, end })
}

pub(crate) fn damage(path: &Path, what: &str) -> io::Error {
    let text = format!(
        "{} is damaged: {what}. Entries that were acknowledged may be lost; restore the metadata server from a copy",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Directory;
    use crate::types::{Command, Entry, Payload, log_id};
    use std::fs;
    use std::path::PathBuf;

    /// Writes `batches` of one-byte commands, each batch synced, and gives back where each record ends.
    fn written(dir: &Path, batches: &[&[u8]]) -> (PathBuf, Vec<usize>) {
        let mut segment =
            Segment::create(&Directory::new(dir), Owner::default(), 7, 0x5a17, &Facts::default()).unwrap();
        let (mut index, mut ends) = (0, Vec::new());
        for batch in batches {
            let mut bytes = Vec::new();
            for number in *batch {
                let payload = Payload::Normal(Command([*number; 40].into()));
                segment.encode(&Record::Entry(Entry { log_id: log_id(1, index), payload }), &mut bytes);
                ends.push((segment.len() as usize) + bytes.len());
                index += 1;
            }
            segment.write(&bytes).unwrap();
            segment.sync().unwrap();
        }
        (dir.join(&segment.name), ends)
    }

    fn end_after(edit: impl FnOnce(&mut Vec<u8>, &[usize])) -> (usize, End) {
        let dir = tempfile::tempdir().unwrap();
        let (path, ends) = written(dir.path(), &[&[1], &[2, 3, 4]]);
        let mut bytes = fs::read(&path).unwrap();
        edit(&mut bytes, &ends);
        fs::write(&path, bytes).unwrap();
        let read = read(&Directory::new(dir.path()), &name_of(7)).unwrap();
        assert!(
            read.records.len() == ends.len()
                || read.end != End::Clean
                || read.len as usize == ends[read.records.len() - 1]
        );
        (read.records.len(), read.end)
    }

    #[test]
    fn a_whole_segment_is_read_to_its_end() {
        assert_eq!(end_after(|_, _| {}), (4, End::Clean));
        assert_eq!(end_after(|bytes, ends| bytes.truncate(ends[3])), (4, End::Clean), "without reserved space");
    }

    /// Every way to lose the end of what was written last: shorter, zeroed from somewhere, garbage.
    #[test]
    fn a_torn_end_is_told_from_a_clean_one() {
        assert_eq!(end_after(|bytes, ends| bytes.truncate(ends[3] - 1)), (3, End::Torn));
        assert_eq!(end_after(|bytes, ends| bytes[ends[2] + 5..].fill(0)), (3, End::Torn));
        assert_eq!(end_after(|bytes, ends| bytes[ends[2]..].fill(0)), (3, End::Clean), "as if never written");
        assert_eq!(end_after(|bytes, ends| bytes[ends[3]..ends[3] + 9].fill(0xee)), (4, End::Torn));
        // Pages may come to disk in any order: the second record of the last batch without the first.
        assert_eq!(end_after(|bytes, ends| bytes[ends[0]..ends[1]].fill(0)), (1, End::Torn));
    }

    /// Record 1 was synced before 2 to 4 were written, and they say so.
    #[test]
    fn a_record_that_was_on_disk_is_damage_when_it_goes_bad() {
        for at in [0, 3, 8, 15, 30] {
            let flip = |bytes: &mut Vec<u8>, ends: &[usize]| {
                let start = ends[1] - (ends[2] - ends[1]) - (ends[1] - ends[0]);
                bytes[start + at] ^= 1;
            };
            assert_eq!(end_after(flip), (0, End::Damaged), "byte {at}");
        }
    }

    /// A command that contains a whole valid record, with a high `synced`, fools nobody: it does not lie at its place.
    #[test]
    fn a_record_inside_a_command_is_not_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut forged = Vec::new();
        Record::Committed(log_id(9, 9)).encode(Place { salt: 0, offset: 0 }, u64::MAX, &mut forged);
        let disk = Directory::new(dir.path());
        let mut segment = Segment::create(&disk, Owner::default(), 1, 77, &Facts::default()).unwrap();
        let mut bytes = Vec::new();
        let payload = Payload::Normal(Command(forged.into()));
        segment.encode(&Record::Entry(Entry { log_id: log_id(1, 0), payload }), &mut bytes);
        bytes[25] ^= 1; // the outer record is torn, the inner one is whole
        segment.write(&bytes).unwrap();
        assert_eq!(read(&disk, &segment.name).unwrap().end, End::Torn);
    }

    #[test]
    fn a_segment_without_a_head_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _) = written(dir.path(), &[&[1]]);
        let mut bytes = fs::read(&path).unwrap();
        bytes[24] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&Directory::new(dir.path()), &name_of(7)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
