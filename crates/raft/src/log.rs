//! The log as openraft uses it.
//!
//! Entries that are not purged yet are in memory too, where openraft reads them: a second of work, which is bounded as
//! the changes above the machine's store are. The disk is read at the start only.

use crate::disk::Disk;
use crate::limits::MESSAGE_LEN;
use crate::meters::Meters;
use crate::position::Position;
use crate::record::{Facts, Owner};
use crate::stop::Stop;
use crate::synced::Synced;
use crate::types::{Entry, LogId, Payload, Types, Vote};
use crate::writer::{Done, Job, Writer};
use ::io::simulated;
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// The writing end; openraft has the only one.
pub(crate) struct Log {
    known: Arc<Mutex<Known>>,
    jobs: Jobs,
    owner: Owner,
}

/// Who writes.
enum Jobs {
    Thread(mpsc::Sender<Job>),
    /// Of a member in a simulation.
    Task(UnboundedSender<Job>),
}

/// The reading end.
#[derive(Clone)]
pub(crate) struct LogReader {
    known: Arc<Mutex<Known>>,
}

struct Known {
    facts: Facts,
    /// Without gaps; the last is `facts.last`, unless there are none.
    entries: VecDeque<Entry>,
}

impl Log {
    /// Also gives the thread that writes, unless this is a simulation. It ends, and lets go of the directory, when the
    /// log is dropped.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        node_id: u64,
        synced: Synced,
        stop: Stop,
        meters: Meters,
    ) -> io::Result<(Self, Option<JoinHandle<()>>)> {
        let found = Writer::open(disk, node_id, synced, stop)?;
        let writer = found.writer.counting(meters);
        let (jobs, thread) = if simulated::is_simulated() {
            let (jobs, work) = unbounded_channel();
            let _ends_with_the_log = ::io::task::spawn("raft log", writer.run_simulated(work));
            (Jobs::Task(jobs), None)
        } else {
            let (jobs, work) = mpsc::channel();
            (Jobs::Thread(jobs), Some(::io::task::thread("raft log", move || writer.run(&work))?))
        };
        let known = Known { facts: found.facts, entries: found.entries };
        Ok((Self { known: Arc::new(Mutex::new(known)), jobs, owner: found.owner }, thread))
    }

    /// See [`crate::record::Owner`].
    pub(crate) fn incarnation(&self) -> u64 {
        self.owner.incarnation
    }

    /// Why a machine that stands at `applied` is not the one that this log belongs to, if so.
    pub(crate) fn mismatch(&self, position: &Position) -> Option<String> {
        let applied = position.applied;
        let known = lock(&self.known);
        let Facts { purged, last, .. } = known.facts;
        if applied < purged {
            return Some(format!("the log begins behind entry {}, the store ends at {}", show(purged), show(applied)));
        }
        // A state that another member sent may be in place before the log was cut for it, and an entry that the others
        // had on disk may be applied before it is on disk here; the start makes up for that.
        let named = position.members.membership.membership().get_node(&self.owner.node_id);
        let is_other = named.is_some_and(|node| node.incarnation != self.owner.incarnation);
        if applied > last && is_other {
            return Some("the log that it had is lost, and the member's vote with it".into());
        }
        if applied > last && applied != position.ahead {
            return Some(format!("the log ends at entry {}, the store at {}", show(last), show(applied)));
        }
        let same = known.entries.iter().find(|entry| Some(entry.log_id.index) == applied.map(|id| id.index));
        let differs = same.filter(|entry| Some(entry.log_id) != applied)?;
        Some(format!("entry {} in the log is {} in the store", show(Some(differs.log_id)), show(applied)))
    }

    #[cfg(test)]
    pub(crate) fn facts(&self) -> Facts {
        lock(&self.known).facts.clone()
    }

    async fn ask(&self, job: impl FnOnce(Done) -> Job) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.send(job(done))?;
        answer.await.map_err(|_| ended())?
    }

    fn send(&self, job: Job) -> io::Result<()> {
        match &self.jobs {
            Jobs::Thread(jobs) => jobs.send(job).map_err(|_| ended()),
            Jobs::Task(jobs) => jobs.send(job).map_err(|_| ended()),
        }
    }
}

impl LogReader {
    /// The last entry that may go if about `len` bytes of entries behind it are enough.
    pub(crate) fn beyond(&self, len: usize) -> Option<u64> {
        let known = lock(&self.known);
        let mut kept = 0;
        let mut behind = known.entries.iter().rev().skip_while(|entry| {
            kept += entry_len(entry);
            kept <= len
        });
        behind.next().map(|entry| entry.log_id.index)
    }
}

/// What an entry takes in memory, about.
fn entry_len(entry: &Entry) -> usize {
    let command_len = match &entry.payload {
        Payload::Normal(command) => command.0.len(),
        Payload::Blank | Payload::Membership(_) => 0,
    };
    size_of::<Entry>() + command_len
}

fn show(id: Option<LogId>) -> String {
    id.map_or_else(|| "none".into(), |id| format!("{} of term {}", id.index, id.leader_id.term))
}

/// A panic in that thread, which has been reported.
fn ended() -> io::Error {
    io::Error::other("the thread that writes the Raft log has ended")
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RaftLogReader<Types> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let known = lock(&self.known);
        let first = known.entries.front().map_or(0, |entry| entry.log_id.index);
        let place = |index: u64| (index.saturating_sub(first) as usize).min(known.entries.len());
        let from = match range.start_bound() {
            Bound::Included(index) => place(*index),
            Bound::Excluded(index) => place(index.saturating_add(1)),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => place(index.saturating_add(1)),
            Bound::Excluded(index) => place(*index),
            Bound::Unbounded => known.entries.len(),
        };
        Ok(known.entries.range(from..to.max(from)).cloned().collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(lock(&self.known).facts.vote)
    }

    /// For sending to another member: as much as one message should hold, one entry at least.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let mut entries = self.try_get_log_entries(start..end).await?;
        let mut len = 0;
        let fitting = entries.iter().take_while(|entry| {
            len += entry_len(entry);
            len <= MESSAGE_LEN
        });
        let count = fitting.count().max(1);
        entries.truncate(count);
        Ok(entries)
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        self.get_log_reader().await.try_get_log_entries(range).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.get_log_reader().await.read_vote().await
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let known = lock(&self.known);
        Ok(LogState { last_purged_log_id: known.facts.purged, last_log_id: known.facts.last })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader { known: Arc::clone(&self.known) }
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.ask(|done| Job::Vote(*vote, done)).await?;
        lock(&self.known).facts.vote = Some(*vote);
        Ok(())
    }

    /// Goes to disk with the next entries. It saves a restart some waiting and decides nothing, so it is worth no sync.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        lock(&self.known).facts.committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let known = lock(&self.known);
        Ok(known.facts.committed.min(known.facts.last))
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let committed = {
            let mut known = lock(&self.known);
            for entry in &entries {
                let expected = known.facts.last.map_or(0, |id| id.index + 1);
                assert!(entry.log_id.index == expected, "entry {} where {expected} should be", entry.log_id.index);
                known.facts.last = Some(entry.log_id);
                known.entries.push_back(entry.clone());
            }
            known.facts.committed
        };
        self.send(Job::Append(entries, committed, flushed))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.ask(|done| Job::Cut(last, done)).await?;
        let mut known = lock(&self.known);
        let kept = known.entries.partition_point(|entry| Some(entry.log_id.index) <= last.map(|id| id.index));
        known.entries.truncate(kept);
        known.facts.last = last;
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let purged: VecDeque<Entry> = {
            let mut known = lock(&self.known);
            known.facts.purge(upto);
            let behind = known.entries.partition_point(|entry| entry.log_id.index <= upto.index);
            let kept = known.entries.split_off(behind);
            std::mem::replace(&mut known.entries, kept)
        };
        drop(purged); // outside the lock, there may be many
        self.send(Job::Purge(upto))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Directory, Paper};
    use crate::types::{Command, log_id, vote};
    use ::types::random::{Random, Seeded};
    use openraft::type_config::TypeConfigExt;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A log under test, and what it must be.
    struct Story {
        dir: tempfile::TempDir,
        log: Option<(Log, JoinHandle<()>)>,
        facts: Facts,
        entries: VecDeque<Entry>,
    }

    fn open(dir: &Path, node_id: u64) -> io::Result<(Log, Option<JoinHandle<()>>)> {
        Log::open(Arc::new(Directory::new(dir)), node_id, Synced::default(), Stop::new(), Meters::default())
    }

    impl Story {
        fn disk(&self) -> Directory {
            Directory::new(self.dir.path())
        }

        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut story = Self { dir, log: None, facts: Facts::default(), entries: VecDeque::new() };
            story.open();
            story
        }

        fn open(&mut self) {
            let (log, thread) = open(self.dir.path(), 1).unwrap();
            self.log = Some((log, thread.unwrap()));
        }

        fn close(&mut self) {
            let (log, thread) = self.log.take().unwrap();
            drop(log);
            thread.join().unwrap();
        }

        fn log(&mut self) -> &mut Log {
            &mut self.log.as_mut().unwrap().0
        }

        async fn append(&mut self, term: u64, count: u64, len: usize) {
            let first = self.facts.last.map_or(0, |id| id.index + 1);
            let payload = |index: u64| Payload::Normal(Command(vec![index as u8; len].into()));
            let entries: Vec<Entry> = (first..first + count)
                .map(|index| Entry { log_id: log_id(term, index), payload: payload(index) })
                .collect();
            self.facts.last = entries.last().map(|entry| entry.log_id);
            self.entries.extend(entries.iter().cloned());
            let (flushed, done) = Types::oneshot();
            self.log().append(entries, IOFlushed::signal(flushed)).await.unwrap();
            done.await.unwrap().unwrap();
        }

        async fn check(&mut self) {
            let (facts, entries) = (self.facts.clone(), Vec::from(self.entries.clone()));
            let log = self.log();
            assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries);
            assert_eq!(log.read_vote().await.unwrap(), facts.vote);
            let state = log.get_log_state().await.unwrap();
            assert_eq!((state.last_purged_log_id, state.last_log_id), (facts.purged, facts.last));
            if let Some(middle) = entries.get(entries.len() / 2) {
                let index = middle.log_id.index;
                assert_eq!(log.try_get_log_entries(index..=index).await.unwrap(), std::slice::from_ref(middle));
                assert_eq!(log.try_get_log_entries(index..index).await.unwrap(), []);
            }
        }
    }

    /// Votes, appends, cuts, purges and new starts at random, segments so full that they are changed all the time.
    #[tokio::test]
    async fn a_log_is_what_was_done_to_it() {
        for seed in 0..12 {
            let (mut story, mut random, mut term) = (Story::new(), Seeded(seed), 1);
            for _ in 0..60 {
                match random.below(8) {
                    0 => {
                        term += 1;
                        story.facts.vote = Some(vote(term, 1, random.below(2) == 0));
                        let vote = story.facts.vote.unwrap();
                        story.log().save_vote(&vote).await.unwrap();
                    }
                    1 if !story.entries.is_empty() => {
                        let kept = random.below(story.entries.len());
                        let last = kept.checked_sub(1).map_or(story.facts.purged, |at| Some(story.entries[at].log_id));
                        story.entries.truncate(kept);
                        story.facts.last = last;
                        story.log().truncate_after(last).await.unwrap();
                    }
                    2 if !story.entries.is_empty() => {
                        let upto = story.entries[random.below(story.entries.len())].log_id;
                        story.entries.retain(|entry| entry.log_id.index > upto.index);
                        story.facts.purged = Some(upto);
                        story.log().purge(upto).await.unwrap();
                    }
                    3 => {
                        story.close();
                        story.open();
                    }
                    4 => story.append(term, 4, 8 << 10).await,
                    5 => {
                        let committed = story.facts.last;
                        story.log().save_committed(committed).await.unwrap();
                    }
                    _ => story.append(term, 1 + random.below(20) as u64, random.below(300)).await,
                }
                story.check().await;
            }
            story.close();
            let left = crate::segment::list(&story.disk()).unwrap();
            assert!(left.len() <= 8, "seed {seed}: {} segments are left", left.len());
        }
    }

    /// What was cut may have been of a later term than what has its place, also where a segment ended with it.
    #[tokio::test]
    async fn entries_of_a_later_term_that_were_cut_leave_no_trace() {
        let mut story = Story::new();
        story.append(6, 4, 10).await;
        let kept = story.facts.last;
        story.append(7, 12, 8 << 10).await;
        story.entries.truncate(4);
        story.facts.last = kept;
        story.log().truncate_after(kept).await.unwrap();
        story.append(6, 50, 10).await;
        story.append(8, 12, 8 << 10).await;
        let upto = log_id(6, 40);
        story.entries.retain(|entry| entry.log_id.index > upto.index);
        story.facts.purged = Some(upto);
        story.log().purge(upto).await.unwrap();
        story.append(8, 1, 10).await;
        story.check().await;
        story.close();
        assert!(crate::segment::list(&story.disk()).unwrap()[0].0 > 1, "the segment of term 7 is still there");
        story.open();
        story.check().await;
    }

    #[tokio::test]
    async fn a_copy_of_an_earlier_term_that_reaches_behind_the_log_replaces_it() {
        let mut story = Story::new();
        story.append(7, 30, 10).await;
        let upto = log_id(6, 50);
        story.log().purge(upto).await.unwrap();
        story.entries.clear();
        (story.facts.purged, story.facts.last) = (Some(upto), Some(upto));
        story.append(8, 2, 10).await;
        story.check().await;
        story.close();
        story.open();
        story.check().await;
    }

    /// A snapshot that reaches behind the log's end replaces the log: the next entry follows the snapshot.
    #[tokio::test]
    async fn purging_beyond_the_end_begins_the_log_anew() {
        let mut story = Story::new();
        story.append(1, 3, 10).await;
        story.log().purge(log_id(5, 100)).await.unwrap();
        story.entries.clear();
        (story.facts.purged, story.facts.last) = (Some(log_id(5, 100)), Some(log_id(5, 100)));
        story.append(6, 2, 10).await;
        story.check().await;
        story.close();
        story.open();
        story.check().await;
    }

    /// The machine stops in the middle of a write: what was acknowledged is there, what was not may go.
    #[tokio::test]
    async fn a_torn_end_is_cut_and_the_log_goes_on() {
        let mut story = Story::new();
        story.append(1, 5, 100).await;
        story.close();
        let (_, name) = crate::segment::list(&story.disk()).unwrap().pop().unwrap();
        let whole = crate::segment::read(&story.disk(), &name).unwrap();
        let path = story.dir.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let len = whole.len as usize;
        bytes[len..len + 50].copy_from_slice(&[0xab; 50]);
        std::fs::write(&path, &bytes).unwrap();
        story.open();
        story.check().await;
        story.append(1, 5, 100).await;
        story.close();
        story.open();
        story.check().await;
    }

    /// What was on disk has changed there: the log is not opened, and nothing is cut.
    #[tokio::test]
    async fn damage_is_not_taken_for_a_torn_end() {
        let mut story = Story::new();
        story.append(1, 5, 100).await;
        story.append(1, 5, 100).await;
        story.close();
        let (_, name) = crate::segment::list(&story.disk()).unwrap().pop().unwrap();
        let path = story.dir.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[300] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        for _ in 0..2 {
            let error = open(story.dir.path(), 1).map(drop).unwrap_err();
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "evidence is left alone");
    }

    /// Names on disk are known to be durable, or not.
    #[derive(Debug)]
    struct Watched {
        directory: Directory,
        names_are_durable: AtomicBool,
    }

    impl Disk for Watched {
        fn path(&self) -> &Path {
            self.directory.path()
        }

        fn segment_len(&self) -> u64 {
            self.directory.segment_len()
        }

        fn lock(&self) -> io::Result<Box<dyn Send>> {
            self.directory.lock()
        }

        fn names(&self) -> io::Result<Vec<String>> {
            self.directory.names()
        }

        fn read(&self, name: &str) -> io::Result<Vec<u8>> {
            self.directory.read(name)
        }

        fn create(&self, name: &str) -> io::Result<Box<dyn Paper>> {
            self.directory.create(name)
        }

        fn open(&self, name: &str) -> io::Result<Box<dyn Paper>> {
            self.directory.open(name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.directory.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.directory.remove(name)
        }

        fn sync_names(&self) -> io::Result<()> {
            self.names_are_durable.store(true, Ordering::Relaxed);
            self.directory.sync_names()
        }

        fn sync_self(&self) -> io::Result<()> {
            self.directory.sync_self()
        }
    }

    /// A member is killed when it has just named a segment. The next process appends to that, and acknowledges: the
    /// name must be on disk by then.
    #[tokio::test]
    async fn a_segment_that_is_gone_on_with_keeps_its_name() {
        let mut story = Story::new();
        story.append(1, 5, 100).await;
        story.close();
        let watched = Arc::new(Watched { directory: story.disk(), names_are_durable: AtomicBool::new(false) });
        let disk: Arc<dyn Disk> = Arc::<Watched>::clone(&watched);
        let (log, thread) = Log::open(disk, 1, Synced::default(), Stop::new(), Meters::default()).unwrap();
        assert!(watched.names_are_durable.load(Ordering::Relaxed));
        story.log = Some((log, thread.unwrap()));
        story.check().await;
        story.close();
    }

    /// A segment between two others is gone, or the first ones are, or a file belongs to another member.
    #[tokio::test]
    async fn missing_segments_and_strange_ones_are_noticed() {
        let mut story = Story::new();
        for _ in 0..3 {
            story.append(1, 5, 16 << 10).await;
        }
        story.close();
        let segments = crate::segment::list(&story.disk()).unwrap();
        assert!(segments.len() >= 3, "{segments:?}");
        let refused = || open(story.dir.path(), 1).map(drop).unwrap_err().to_string();
        for (_, name) in &segments[..2] {
            let path = story.dir.path().join(name);
            let away = path.with_extension("away");
            std::fs::rename(&path, &away).unwrap();
            assert!(refused().contains("missing"), "{}", refused());
            std::fs::rename(away, path).unwrap();
        }
        let other = open(story.dir.path(), 2).map(drop).unwrap_err();
        assert!(other.to_string().contains("member"), "{other}");
        story.open();
        story.check().await;
        let second = open(story.dir.path(), 1).map(drop).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_log_knows_the_machine_it_belongs_to() {
        let mut story = Story::new();
        story.append(2, 10, 10).await;
        story.log().purge(log_id(2, 3)).await.unwrap();
        let mut mismatch = |applied| story.log().mismatch(&Position { applied, ..Position::default() });
        for fits in [log_id(2, 3), log_id(2, 5), log_id(2, 9)] {
            assert_eq!(mismatch(Some(fits)), None);
        }
        for bad in [None, Some(log_id(2, 2)), Some(log_id(2, 10)), Some(log_id(1, 5)), Some(log_id(1, 3))] {
            assert!(mismatch(bad).is_some(), "{bad:?}");
        }
    }

    /// The others had an entry on disk before this member did; it was applied, and then the power went.
    #[tokio::test]
    async fn a_machine_may_have_what_it_knows_the_log_to_lack() {
        let mut story = Story::new();
        story.append(2, 10, 10).await;
        let at = |applied, ahead| Position { applied: Some(applied), ahead, ..Position::default() };
        assert_eq!(story.log().mismatch(&at(log_id(3, 10), Some(log_id(3, 10)))), None);
        assert!(story.log().mismatch(&at(log_id(3, 11), Some(log_id(3, 10)))).is_some(), "this one was on disk here");
    }

    #[tokio::test]
    async fn a_log_tells_how_far_it_is_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let synced = Synced::default();
        let open = || {
            Log::open(Arc::new(Directory::new(dir.path())), 1, synced.clone(), Stop::new(), Meters::default()).unwrap()
        };
        let (mut log, thread) = open();
        assert!(!synced.has(0));
        let entry = |index| Entry { log_id: log_id(1, index), payload: Payload::Blank };
        let (flushed, done) = Types::oneshot();
        log.append((0..3).map(entry), IOFlushed::signal(flushed)).await.unwrap();
        done.await.unwrap().unwrap();
        assert!(synced.has(2) && !synced.has(3));
        log.truncate_after(Some(log_id(1, 1))).await.unwrap();
        assert!(synced.has(1) && !synced.has(2));
        drop(log);
        thread.unwrap().join().unwrap();
        synced.tell(None);
        let (_log, _thread) = open();
        assert!(synced.has(1) && !synced.has(2));
    }

    /// One message holds what it may and no more, or a single entry that is longer.
    #[tokio::test]
    async fn a_message_ends_before_what_it_cannot_hold() {
        let mut story = Story::new();
        story.append(1, 3, MESSAGE_LEN / 4).await;
        story.append(1, 2, crate::limits::COMMAND_LEN_MAX).await;
        let mut reader = story.log().get_log_reader().await;
        for (start, count) in [(0, 3), (1, 2), (3, 1), (4, 1)] {
            let entries = reader.limited_get_log_entries(start, 5).await.unwrap();
            assert_eq!(entries.len(), count, "from {start} on");
            assert!(entries.iter().map(entry_len).sum::<usize>() <= crate::limits::MESSAGE_LEN_MAX);
        }
        story.close();
    }
}
