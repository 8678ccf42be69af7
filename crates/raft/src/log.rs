//! The log as openraft uses it. Entries that are not cut yet are kept in memory too: that is a second of work.

use crate::entry::{Promise, encode_entry};
use crate::writer::{Done, Job, Writer};
use crate::{Entry, LogId, Types, Vote};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, RaftTypeConfig};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use tokio::sync::oneshot;

/// A cheap handle; all clones are the same log.
#[derive(Clone)]
pub(crate) struct Log {
    known: Arc<Mutex<Known>>,
    jobs: mpsc::Sender<Job>,
}

struct Known {
    promise: Promise,
    entries: BTreeMap<u64, Entry>,
}

impl Log {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let found = Writer::open(dir)?;
        let (jobs, work) = mpsc::channel();
        let writer = found.writer;
        io_thread(move || writer.run(&work))?;
        let entries = found.entries.into_iter().map(|entry| (entry.log_id.index(), entry)).collect();
        Ok(Self { known: Arc::new(Mutex::new(Known { promise: found.promise, entries })), jobs })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, job: impl FnOnce(Done) -> Job) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.jobs.send(job(done)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

fn io_thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    ::io::task::thread("raft log", run).map(drop)
}

fn stopped() -> io::Error {
    io::Error::other("the thread that writes the Raft log has ended")
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        Ok(self.known().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.known().promise.vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let known = self.known();
        let last_purged_log_id = known.promise.purged;
        let last_log_id = known.entries.last_key_value().map(|(_, entry)| entry.log_id).or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let promise = Promise { vote: Some(*vote), ..self.known().promise.clone() };
        self.ask(|done| Job::SavePromise(promise.clone(), done)).await?;
        self.known().promise.vote = promise.vote;
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = <Types as RaftTypeConfig>::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        let mut known = self.known();
        for entry in entries {
            records.push(encode_entry(&entry));
            known.entries.insert(entry.log_id.index(), entry);
        }
        // Sent under the lock, so that the writer sees appends in the order of their indexes.
        self.jobs.send(Job::Append(records, flushed)).map_err(|_| stopped())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index() + 1);
        self.known().entries.split_off(&from);
        self.ask(|done| Job::Truncate(from, done)).await
    }

    async fn purge(&mut self, through: LogId) -> io::Result<()> {
        let from = through.index() + 1;
        let promise = {
            let mut known = self.known();
            known.promise.purged = Some(through);
            known.entries = known.entries.split_off(&from);
            known.promise.clone()
        };
        self.ask(|done| Job::Purge(from, promise, done)).await
    }
}
