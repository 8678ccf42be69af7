//! A thread for each disk that puts small replicas: all that came while it was busy go together.
//!
//! In `synced` that is the group commit: one sync of the disk for all writers of the moment. A disk that refuses a
//! replica, as it is full or fails, is followed by another one; so is one that hangs, once it is given up. A panic
//! refuses the replicas of its batch, and the thread goes on with those that wait.

use crate::node_lock::NodeLock;
use crate::replicas::held;
use bytes::Bytes;
use container::{Advice, Identity, ReplicaError, ReplicaInfo, SmallPut};
use disks::Disks;
use io::LogLimit;
use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use types::ReplicaState;
use xfer::small::batch;

/// What is under way at the end of a node is put; a disk that takes longer is not waited for.
const END_WAIT: Duration = Duration::from_secs(10);

/// A replica to be put, in the bytes that came.
#[derive(Clone, Debug)]
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

type Outcome = Result<(), Refused>;

/// Why a disk did not put a replica.
#[derive(Debug)]
struct Refused {
    reason: String,
    /// Another disk may.
    elsewhere: bool,
}

impl Refused {
    fn hangs(error: &ReplicaError) -> Self {
        Self { reason: error.to_string(), elsewhere: true }
    }

    /// Nobody knows what it did. What brought it about may lie in the request, which no other disk is to meet.
    fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = io::task::panic_text(panic);
        tracing::error!(reason = text, "putting small replicas panicked; those of this moment are refused");
        Self { reason: format!("putting it panicked: {text}"), elsewhere: false }
    }
}

impl From<ReplicaError> for Refused {
    fn from(error: ReplicaError) -> Self {
        let elsewhere = error.advice() == Advice::WriteElsewhere && !error.is_momentary();
        Self { reason: error.to_string(), elsewhere }
    }
}

/// Takes jobs, and ends its threads when it is dropped.
#[derive(Debug)]
pub(crate) struct Committer {
    disks: Disks,
    /// One for each disk.
    queues: Vec<Arc<Queue>>,
    node: Arc<NodeLock>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Bounded by the budget of those who bring the jobs.
    waiting: Mutex<Waiting>,
    came: Condvar,
    /// Of replicas that were not put: others bring them.
    log_limit: LogLimit,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<(Job, oneshot::Sender<Outcome>)>,
    closed: bool,
}

impl Committer {
    pub(crate) fn start(disks: &Disks, node: &Arc<NodeLock>) -> std::io::Result<Self> {
        let queues = disks.disks().iter().map(|_| Arc::default()).collect();
        let (disks, node) = (disks.clone(), Arc::clone(node));
        let mut committer = Self { disks, queues, node, threads: Vec::new() };
        for (disk, queue) in committer.disks.disks().iter().zip(&committer.queues) {
            let (queue, volume, node) = (Arc::clone(queue), disk.volume().clone(), Arc::clone(&committer.node));
            let thread = io::task::thread("small writes", move || {
                serve(&queue, &node, |puts, synced| volume.put_batch(puts, synced));
            })?;
            committer.threads.push(thread);
        }
        Ok(committer)
    }

    /// Puts a replica. What was begun is ended, whether somebody waits for it or not.
    pub(super) async fn put(&self, job: Job) -> Result<(), String> {
        let block = job.identity.block;
        let mut refusal = "no disk of this node takes writes now".to_owned();
        let mut avoided = Vec::new();
        while let Some((at, _stream)) = self.disks.place_small(block, &avoided) {
            match self.put_at(at, job.clone()).await {
                Ok(()) => {
                    self.disks.was_put_small(block, at);
                    return Ok(());
                }
                Err(Refused { reason, elsewhere }) => refusal = if elsewhere { reason } else { return Err(reason) },
            }
            let _whether_it_hangs = self.disks.for_disk(at, move |disks| disks.did_not_take(at, block)).await;
            avoided.push(at);
        }
        Err(refusal)
    }

    async fn put_at(&self, at: usize, job: Job) -> Outcome {
        let disk = &self.disks.disks()[at];
        let volume = disk.volume();
        if !volume.is_small(job.data.len() as u64) {
            // It gets files of its own, and takes the disk for longer: nobody waits behind it.
            let (volume, node) = (volume.clone(), Arc::clone(&self.node));
            let put = move |_: &Disks| {
                let outcome = volume.put_whole(&job.put(), job.synced).map_err(Refused::from);
                note_outcome(&node, &job, &outcome);
                outcome
            };
            return self.disks.for_disk(at, put).await.unwrap_or_else(|hangs| Err(Refused::hangs(&hangs)));
        }
        let (sender, receiver) = oneshot::channel();
        let queue = &self.queues[at];
        let abandoned = disk.thread_quota().abandoned();
        if disk.hangs() {
            return Err(Refused::hangs(&ReplicaError::Hangs));
        }
        queue.lock().jobs.push_back((job, sender));
        queue.came.notify_one();
        tokio::select! {
            biased;
            outcome = receiver => match outcome {
                Ok(outcome) => outcome,
                Err(_) if disk.hangs() => Err(Refused::hangs(&ReplicaError::Hangs)),
                Err(_) => Err(Refused { reason: "the node stops".to_owned(), elsewhere: false }),
            },
            () = abandoned => {
                // Those behind are told the same; what they brought takes no memory any longer.
                queue.lock().jobs.clear();
                Err(Refused::hangs(&ReplicaError::Hangs))
            }
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.lock().closed = true;
            queue.came.notify_one();
        }
        for (thread, disk) in self.threads.drain(..).zip(self.disks.disks()) {
            let wait = if disk.volume().failure().is_some() { Duration::ZERO } else { END_WAIT };
            if !io::task::join_within(thread, wait) {
                tracing::error!("small writes wait for a disk that does not answer; they are cut off");
            }
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
        let count = batch::count(waiting.jobs.iter().map(|(job, _)| job.data.len()));
        Some(waiting.jobs.drain(..count).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts what comes, batch by batch, until there will be no more.
fn serve(queue: &Queue, node: &NodeLock, put: impl Fn(&[SmallPut<'_>], bool) -> Vec<Result<(), ReplicaError>>) {
    while let Some(batch) = queue.take() {
        commit(node, batch, &queue.log_limit, &put);
    }
}

fn commit(
    node: &NodeLock,
    batch: Vec<(Job, oneshot::Sender<Outcome>)>,
    limit: &LogLimit,
    put: impl Fn(&[SmallPut<'_>], bool) -> Vec<Result<(), ReplicaError>>,
) {
    let synced = batch::is_synced(batch.iter().map(|(job, _)| job.synced));
    let puts: Vec<SmallPut<'_>> = batch.iter().map(|(job, _)| job.put()).collect();
    let outcomes: Vec<Outcome> = match catch_unwind(AssertUnwindSafe(|| put(&puts, synced))) {
        Ok(outcomes) => outcomes.into_iter().map(|outcome| outcome.map_err(Refused::from)).collect(),
        Err(panic) => puts.iter().map(|_| Err(Refused::panicked(&*panic))).collect(),
    };
    for ((job, sender), outcome) in batch.into_iter().zip(outcomes) {
        if let Err(Refused { reason, .. }) = &outcome
            && let Some(passed_over) = limit.due()
        {
            tracing::info!(block = %job.identity.block, reason, passed_over, "a small replica was not put");
        }
        note_outcome(node, &job, &outcome);
        let _nobody_waits = sender.send(outcome);
    }
}

/// The metadata server is to hear of it soon.
fn note_outcome(node: &NodeLock, job: &Job, outcome: &Outcome) {
    if outcome.is_ok() {
        let len = job.data.len() as u64;
        let state = ReplicaState::Finalized;
        let info = ReplicaInfo { identity: job.identity, len, visible_len: len, state, has_writer: false };
        node.with(|node| node.was_put(&held(&info)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{BlockId, ChecksumSpec, ContainerId, Generation, InodeId};

    fn job(block: u64) -> Job {
        let identity = Identity {
            block: BlockId(block),
            generation: Generation(1001),
            file: InodeId(16_400),
            home: ContainerId(0),
            checksum: ChecksumSpec::DEFAULT,
        };
        Job { identity, bytes: Bytes::new(), sums: 0..0, data: 0..0, synced: false }
    }

    #[test]
    fn a_panic_refuses_its_batch_and_those_that_come_later_are_put() {
        let (queue, node) = (Arc::new(Queue::default()), Arc::new(NodeLock::new(1, 1)));
        let thread = {
            let (queue, node) = (Arc::clone(&queue), Arc::clone(&node));
            io::task::thread("small writes", move || {
                serve(&queue, &node, |puts, _| {
                    assert!(puts.iter().all(|put| put.identity.block != BlockId(13)), "on purpose");
                    puts.iter().map(|_| Ok(())).collect()
                });
            })
        };
        let put = |block: u64| {
            let (sender, receiver) = oneshot::channel();
            queue.lock().jobs.push_back((job(block), sender));
            queue.came.notify_one();
            receiver.blocking_recv().expect("it is answered")
        };
        put(1).unwrap();
        let Refused { reason, elsewhere } = put(13).unwrap_err();
        assert!(reason.contains("on purpose") && !elsewhere, "{reason}");
        put(2).unwrap();
        queue.lock().closed = true;
        queue.came.notify_one();
        thread.unwrap().join().unwrap();
    }
}
