//! The thread that writes the log. What arrives while it syncs shares the next sync.
//!
//! Promise: whoever waits for something is told that it is on disk after `fdatasync` said so, and never before. After a
//! first error nothing is written any more: what a failed sync has left on disk is unknown.

use crate::disk::Disk;
use crate::meters::Meters;
use crate::record::{Facts, Owner, Record};
use crate::segment::{self, Contents, End, Segment, damage};
use crate::stop::Stop;
use crate::synced::Synced;
use crate::types::{Entry, LogId, Types, Vote};
use ::io::{random, time};
use openraft::storage::IOFlushed;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// Bytes written and synced at once, unless a single entry is longer. A guess: half a millisecond of a disk's work more
/// or less.
const BATCH_LEN_MAX: usize = 1 << 20;

pub(crate) type Done = oneshot::Sender<io::Result<()>>;

pub(crate) enum Job {
    /// Entries, how far the log was committed by then, and whom to tell once they are synced.
    Append(Vec<Entry>, Option<LogId>, IOFlushed<Types>),
    Vote(Vote, Done),
    /// Drop the entries behind this one, or all.
    Cut(Option<LogId>, Done),
    /// The entries up to this one are not needed any more. Nobody waits: what comes back after a crash does no harm.
    Purge(LogId),
}

pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    owner: Owner,
    facts: Facts,
    /// Older segments, and the index of the last entry before each one's successor.
    closed: VecDeque<(String, Option<u64>)>,
    active: Segment,
    failed: Option<(io::ErrorKind, String)>,
    synced: Synced,
    stop: Stop,
    meters: Meters,
    /// Held locked as long as the log is open.
    _lock: Box<dyn Send>,
}

/// What is on disk.
pub(crate) struct Found {
    pub(crate) owner: Owner,
    pub(crate) facts: Facts,
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) writer: Writer,
}

impl Writer {
    /// Opens the log, which is made if it is not there. An error of kind `WouldBlock`: another process has it.
    pub(crate) fn open(disk: Arc<dyn Disk>, node_id: u64, synced: Synced, stop: Stop) -> io::Result<Found> {
        let lock = disk.lock()?;
        let Scan { replay, closed, last, incarnation } = scan(&*disk, Some(node_id))?;
        let active = last.map(|(name, contents)| Segment::resume(&*disk, name, &contents)).transpose()?;
        let owner = Owner { node_id, incarnation: incarnation.unwrap_or_else(|| random::random_u64().max(1)) };
        let active = match active {
            Some(active) => {
                // It may have been named just before this member was killed; what is acknowledged from here on must not
                // go with that.
                disk.sync_names()?;
                active
            }
            None => {
                let first = Segment::create(&*disk, owner, 1, random::random_u64(), &Facts::default())?;
                disk.sync_self()?;
                first
            }
        };
        let Replay { facts, entries, .. } = replay;
        let facts_now = facts.clone();
        synced.tell(facts.last.map(|id| id.index));
        let writer = Self {
            disk,
            owner,
            facts,
            closed,
            active,
            failed: None,
            synced,
            stop,
            meters: Meters::default(),
            _lock: lock,
        };
        Ok(Found { owner, facts: facts_now, entries, writer })
    }

    /// It counts into these from then on.
    pub(crate) fn counting(self, meters: Meters) -> Self {
        Self { meters, ..self }
    }

    /// Works until the senders are gone.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let batch = self.collect(job, || jobs.try_recv().ok());
            self.write(&batch);
            self.sync(batch);
        }
    }

    /// As [`Writer::run`], in a simulation: a task does it, and takes its time.
    pub(crate) async fn run_simulated(mut self, mut jobs: UnboundedReceiver<Job>) {
        while let Some(job) = jobs.recv().await {
            let batch = self.collect(job, || jobs.try_recv().ok());
            self.write(&batch);
            time::sleep(self.disk.sync_time()).await;
            self.sync(batch);
        }
    }

    /// Everything that waits shares one sync.
    fn collect(&mut self, job: Job, mut more: impl FnMut() -> Option<Job>) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(job);
        while let Some(job) = next {
            self.take(job, &mut batch);
            next = if batch.bytes.len() < BATCH_LEN_MAX { more() } else { None };
        }
        batch
    }

    /// Puts what `job` asks for into the batch.
    fn take(&mut self, job: Job, batch: &mut Batch) {
        match job {
            Job::Append(entries, committed, flushed) => {
                if let Some(committed) = committed.filter(|_| committed > self.facts.committed) {
                    self.facts.committed = Some(committed);
                    self.active.encode(&Record::Committed(committed), &mut batch.bytes);
                }
                for entry in entries {
                    self.facts.last = Some(entry.log_id);
                    self.active.encode(&Record::Entry(entry), &mut batch.bytes);
                }
                batch.waiting.push(Waiting::Append(flushed));
            }
            Job::Vote(vote, done) => {
                self.facts.vote = Some(vote);
                self.active.encode(&Record::Vote(vote), &mut batch.bytes);
                batch.waiting.push(Waiting::Done(done));
            }
            Job::Cut(last, done) => {
                self.facts.last = last;
                self.active.encode(&Record::Cut(last), &mut batch.bytes);
                batch.waiting.push(Waiting::Done(done));
            }
            Job::Purge(id) => {
                self.facts.purge(id);
                self.active.encode(&Record::Purged(id), &mut batch.bytes);
            }
        }
    }

    fn write(&mut self, batch: &Batch) {
        self.meters.append_lens.observe_count(batch.bytes.len() as u64);
        self.unless_failed(|writer| writer.active.write(&batch.bytes));
    }

    /// What was written is on disk then, and whoever waits is told so.
    fn sync(&mut self, batch: Batch) {
        if !batch.waiting.is_empty() {
            self.unless_failed(|writer| {
                let began = writer.meters.now();
                let synced = writer.active.sync();
                writer.meters.syncs.observe(writer.meters.since(began));
                synced?;
                writer.synced.tell(writer.facts.last.map(|id| id.index));
                Ok(())
            });
        }
        for waiting in batch.waiting {
            let result = self.failed.as_ref().map_or(Ok(()), |(kind, text)| Err(io::Error::new(*kind, text.clone())));
            match waiting {
                Waiting::Append(flushed) => flushed.io_completed(result),
                Waiting::Done(done) => drop(done.send(result)), // whoever asked may have gone
            }
        }
        self.unless_failed(Self::tidy);
    }

    fn unless_failed(&mut self, run: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(error) = run(self)
        {
            self.stop.because(format!("the Raft log in {} cannot be written: {error}", self.disk.path().display()));
            self.failed = Some((error.kind(), error.to_string()));
        }
    }

    /// What need not be done before the answers: begins a new segment, removes old ones.
    fn tidy(&mut self) -> io::Result<()> {
        if self.active.len() >= self.disk.segment_len() {
            self.active.close()?;
            let sequence = self.active.sequence + 1;
            let next = Segment::create(&*self.disk, self.owner, sequence, random::random_u64(), &self.facts)?;
            let last = std::mem::replace(&mut self.active, next);
            self.closed.push_back((last.name, self.facts.last.map(|id| id.index)));
        }
        self.active.prepare(self.disk.segment_len())?;
        self.remove_purged()
    }

    /// Gives back the segments that hold only what was purged. Oldest first, each one for good before the next, so that
    /// no crash leaves a gap.
    fn remove_purged(&mut self) -> io::Result<()> {
        let purged = self.facts.purged.map(|id| id.index);
        while self.closed.front().is_some_and(|(_, last)| *last <= purged) {
            self.active.sync()?; // the record that says so must outlive the entries
            if let Some((name, _)) = self.closed.pop_front() {
                self.disk.remove(&name)?;
                self.disk.sync_names()?;
            }
        }
        Ok(())
    }
}

/// What the segments of a log say. Nothing is changed by reading them.
pub(crate) struct Scan {
    pub(crate) replay: Replay,
    /// Older segments, and the index of the last entry before each one's successor.
    closed: VecDeque<(String, Option<u64>)>,
    /// The one that is written to, if there is any.
    last: Option<(String, Contents)>,
    incarnation: Option<u64>,
}

/// `node_id`: whose log it is to be. The log is locked by the caller.
pub(crate) fn scan(disk: &dyn Disk, node_id: Option<u64>) -> io::Result<Scan> {
    let mut replay = Replay::default();
    let mut closed: VecDeque<(String, Option<u64>)> = VecDeque::new();
    let (mut last, mut incarnation) = (None, None);
    let segments = segment::list(disk)?;
    for (place, (sequence, name)) in segments.iter().enumerate() {
        let path = &disk.path().join(name);
        let mut contents = segment::read(disk, name)?;
        let owner = contents.head.owner;
        if node_id.is_some_and(|node_id| owner.node_id != node_id) {
            let text =
                format!("{} is of member {}, not {}", path.display(), owner.node_id, node_id.unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if *incarnation.get_or_insert(owner.incarnation) != owner.incarnation {
            return Err(damage(path, "it is of another log than the segments before it"));
        }
        let is_last = place + 1 == segments.len();
        if contents.head.sequence != *sequence || *sequence != segments[0].0 + place as u64 {
            return Err(damage(path, "a segment before it is missing, or it has another's name"));
        }
        if contents.end == End::Damaged || (contents.end == End::Torn && !is_last) {
            return Err(damage(path, &format!("the record at byte {} does not match its checksum", contents.len)));
        }
        if place == 0 {
            replay.begin(contents.head.facts());
        } else if contents.head.facts() != replay.facts {
            return Err(damage(path, "its head does not follow from the segment before it"));
        }
        for record in std::mem::take(&mut contents.records) {
            replay.take(record).map_err(|what| damage(path, &what))?;
        }
        // By index: an entry of an earlier segment that was cut may have had a later term.
        if is_last && index(replay.facts.purged) < index(replay.removed) {
            return Err(damage(path, "segments before it are missing that were still needed"));
        }
        if is_last {
            last = Some((name.clone(), contents));
        } else {
            closed.push_back((name.clone(), replay.facts.last.map(|id| id.index)));
        }
    }
    Ok(Scan { replay, closed, last, incarnation })
}

/// What is written and synced at once.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
}

enum Waiting {
    Append(IOFlushed<Types>),
    Done(Done),
}

impl Facts {
    /// A copy of another member's rows takes the place of entries up to `id`, which may be of a later term here than
    /// there.
    pub(crate) fn purge(&mut self, id: LogId) {
        self.purged = Some(id);
        if index(self.last) < Some(id.index) {
            self.last = Some(id);
        }
    }
}

fn index(id: Option<LogId>) -> Option<u64> {
    id.map(|id| id.index)
}

/// Rebuilds a log from its records.
#[derive(Default)]
pub(crate) struct Replay {
    facts: Facts,
    /// What the first segment found says was before it, in segments that were removed.
    removed: Option<LogId>,
    pub(crate) entries: VecDeque<Entry>,
}

impl Replay {
    pub(crate) fn begin(&mut self, facts: Facts) {
        self.removed = facts.last;
        self.facts = facts;
    }

    pub(crate) fn take(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Head(_) => return Err("a head in its middle".into()),
            Record::Vote(vote) => self.facts.vote = Some(vote),
            Record::Committed(id) => self.facts.committed = Some(id),
            Record::Purged(id) => {
                self.facts.purge(id);
                let behind = self.entries.partition_point(|entry| entry.log_id.index <= id.index);
                self.entries.drain(..behind);
            }
            Record::Cut(last) => {
                let kept = self.entries.partition_point(|entry| Some(entry.log_id.index) <= last.map(|id| id.index));
                self.entries.truncate(kept);
                self.facts.last = last;
            }
            Record::Entry(entry) => {
                let expected = self.facts.last.map_or(0, |id| id.index + 1);
                if entry.log_id.index != expected {
                    return Err(format!("entry {} where {expected} should be", entry.log_id.index));
                }
                self.facts.last = Some(entry.log_id);
                self.entries.push_back(entry);
            }
        }
        Ok(())
    }
}
