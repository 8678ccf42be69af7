//! The thread that writes the log. Appends that arrive while it syncs share the next sync.

use crate::entry::Promise;
use crate::segment::{self, Segment};
use crate::{Entry, Types};
use openraft::storage::IOFlushed;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// A new file is begun at this length: small enough that cutting the log gives space back, large enough to be rare.
const SEGMENT_LEN_MAX: u64 = 16 << 20;

pub(crate) type Done = oneshot::Sender<io::Result<()>>;

pub(crate) enum Job {
    /// Entries as bytes, and whom to tell once they are synced.
    Append(Vec<Vec<u8>>, IOFlushed<Types>),
    SavePromise(Promise, Done),
    /// Drop the entries from this index on.
    Truncate(u64, Done),
    /// The entries before this index are not needed any more; the promise says so first.
    Purge(u64, Promise, Done),
}

pub(crate) struct Writer {
    dir: PathBuf,
    /// Ascending; appended to at the last.
    segments: Vec<Segment>,
    next: u64,
}

/// What is on disk.
pub(crate) struct Found {
    pub promise: Promise,
    pub entries: Vec<Entry>,
    pub writer: Writer,
}

impl Writer {
    pub(crate) fn open(dir: &Path) -> io::Result<Found> {
        fs::create_dir_all(dir)?;
        let promise = match fs::read(dir.join("vote")) {
            Ok(bytes) => Promise::decode(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Promise::default(),
            Err(error) => return Err(error),
        };
        let mut firsts = Vec::new();
        for file in fs::read_dir(dir)? {
            let path = file?.path();
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .filter(|_| path.extension().is_some_and(|e| e == "log"));
            if let Some(first) = name.and_then(|name| u64::from_str_radix(name, 16).ok()) {
                firsts.push((first, path));
            }
        }
        firsts.sort();
        let start = promise.purged.as_ref().map_or(0, |purged| purged.index() + 1);
        let (mut segments, mut entries): (Vec<Segment>, Vec<Entry>) = (Vec::new(), Vec::new());
        for (first, path) in firsts {
            match segments.last() {
                // Only the file that was written last can be torn, so an entry missing between two is damage.
                Some(before) if before.end() != first => {
                    let text =
                        format!("{}: the log has a hole before it, after entry {}", path.display(), before.end());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                _ => segments.push(Segment::open(&path, first, &mut entries)?),
            }
        }
        let next = segments.last().map_or(start, Segment::end).max(start);
        entries.retain(|entry| entry.log_id.index() >= start);
        Ok(Found { promise, entries, writer: Self { dir: dir.to_owned(), segments, next } })
    }

    /// Works until the senders are gone.
    pub(crate) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Append(entries, flushed) => {
                    let mut batch = vec![(entries, flushed)];
                    // Everything that waits shares one sync.
                    while next.is_none() {
                        match jobs.try_recv() {
                            Ok(Job::Append(entries, flushed)) => batch.push((entries, flushed)),
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    self.append_all(batch);
                }
                Job::SavePromise(promise, done) => {
                    let _ = done.send(self.save(&promise));
                }
                Job::Truncate(index, done) => {
                    let _ = done.send(self.truncate(index));
                }
                Job::Purge(index, promise, done) => {
                    let _ = done.send(self.save(&promise).and_then(|()| self.purge(index)));
                }
            }
            next = next.or_else(|| jobs.recv().ok());
        }
    }

    fn append_all(&mut self, batch: Vec<(Vec<Vec<u8>>, IOFlushed<Types>)>) {
        let result = self.append(batch.iter().flat_map(|(entries, _)| entries));
        for (_, flushed) in batch {
            flushed.io_completed(
                result.as_ref().copied().map_err(|error| io::Error::new(error.kind(), error.to_string())),
            );
        }
    }

    fn append<'e>(&mut self, entries: impl Iterator<Item = &'e Vec<u8>> + Clone) -> io::Result<()> {
        if self.segments.last().is_none_or(|segment| segment.len() >= SEGMENT_LEN_MAX) {
            self.segments.push(Segment::create(&self.dir, self.next)?);
        }
        let segment = self.segments.last_mut().expect("one was just made");
        let mut records = Vec::new();
        entries.clone().for_each(|entry| segment::frame(entry, &mut records));
        segment.append(&records, entries.map(Vec::len))?;
        segment.sync()?;
        self.next = segment.end();
        Ok(())
    }

    /// Replaces the file `vote` as a whole.
    fn save(&self, promise: &Promise) -> io::Result<()> {
        let new = self.dir.join("vote.new");
        let mut file = File::create(&new)?;
        file.write_all(&promise.encode())?;
        file.sync_all()?;
        fs::rename(&new, self.dir.join("vote"))?;
        File::open(&self.dir)?.sync_all()
    }

    fn truncate(&mut self, index: u64) -> io::Result<()> {
        while self.segments.last().is_some_and(|segment| segment.first >= index) {
            self.segments.pop().expect("there is a last one").remove()?;
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.cut(index)?;
        }
        self.next = self.next.min(index);
        Ok(())
    }

    fn purge(&mut self, index: u64) -> io::Result<()> {
        while self.segments.len() > 1 && self.segments[0].end() <= index {
            self.segments.remove(0).remove()?;
        }
        Ok(())
    }
}
