//! One thread that puts small replicas: all that came while it was busy go together.
//!
//! In `synced` that is the group commit: one sync of the disk for all writers of the moment.

use crate::changes::Changes;
use crate::node::report;
use bytes::Bytes;
use container::{Identity, ReplicaInfo, ReplicaState, SmallPut, Volume};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Replicas of one batch: a batch holds up those behind it.
const BATCH_COUNT_MAX: usize = 256;

/// A replica to be put, in the bytes that came.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) identity: Identity,
    pub(super) bytes: Bytes,
    pub(super) sums: Range<usize>,
    pub(super) data: Range<usize>,
    /// To be on disk, whatever the node promises.
    pub(super) synced: bool,
}

impl Job {
    pub(super) fn put(&self) -> SmallPut<'_> {
        let (data, sums) = (&self.bytes[self.data.clone()], &self.bytes[self.sums.clone()]);
        SmallPut { identity: self.identity, data, sums }
    }
}

type Outcome = Result<(), String>;

/// Takes jobs, and ends its thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: Arc<Queue>,
    volume: Volume,
    changes: Arc<Changes>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Bounded by the budget of those who bring the jobs.
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<(Job, oneshot::Sender<Outcome>)>,
    closed: bool,
}

impl Committer {
    pub(crate) fn start(volume: Volume, changes: Arc<Changes>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (of_thread, its_volume, its_changes) = (Arc::clone(&queue), volume.clone(), Arc::clone(&changes));
        let thread = io::task::thread("small writes", move || {
            while let Some(batch) = of_thread.take() {
                commit(&its_volume, &its_changes, batch);
            }
        })?;
        Ok(Self { queue, volume, changes, thread: Some(thread) })
    }

    /// Puts a replica. What was begun is ended, whether somebody waits for it or not.
    pub(super) async fn put(&self, job: Job) -> Outcome {
        if !self.volume.is_small(job.data.len() as u64) {
            // It gets files of its own, and takes the disk for longer: nobody waits behind it.
            let (volume, changes) = (self.volume.clone(), Arc::clone(&self.changes));
            return io::task::blocking(move || {
                let outcome = volume.put_whole(&job.put(), job.synced).map_err(|error| error.to_string());
                tell(&changes, &job, &outcome);
                outcome
            })
            .await;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.queue.lock();
            waiting.jobs.push_back((job, sender));
        }
        self.queue.came.notify_one();
        receiver.await.unwrap_or_else(|_stopped| Err("the node stops".to_owned()))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.came.notify_one();
        if let Some(thread) = self.thread.take() {
            let _its_panic_was_reported = thread.join();
        }
    }
}

impl Queue {
    /// Waits for jobs; `None` when there will be no more.
    fn take(&self) -> Option<Vec<(Job, oneshot::Sender<Outcome>)>> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return None;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let count = waiting.jobs.len().min(BATCH_COUNT_MAX);
        Some(waiting.jobs.drain(..count).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn commit(volume: &Volume, changes: &Changes, batch: Vec<(Job, oneshot::Sender<Outcome>)>) {
    let synced = batch.iter().any(|(job, _)| job.synced);
    let puts: Vec<SmallPut<'_>> = batch.iter().map(|(job, _)| job.put()).collect();
    let outcomes = volume.put_batch(&puts, synced);
    for ((job, sender), outcome) in batch.into_iter().zip(outcomes) {
        let outcome = outcome.map_err(|error| {
            tracing::info!(block = %job.identity.block, %error, "a small replica was not put");
            error.to_string()
        });
        tell(changes, &job, &outcome);
        let _nobody_waits = sender.send(outcome);
    }
}

/// The metadata server is to hear of it soon.
fn tell(changes: &Changes, job: &Job, outcome: &Outcome) {
    if outcome.is_ok() {
        let len = job.data.len() as u64;
        let state = ReplicaState::Finalized;
        changes.put(report(&ReplicaInfo { identity: job.identity, len, visible_len: len, state, has_writer: false }));
    }
}
