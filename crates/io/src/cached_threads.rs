//! Threads that are used again, for jobs that come often, may be short, and wait for sockets and disks.
//!
//! Promise: a job begins at once; it never waits for another one to end. A panic in one is reported and ends nothing
//! but itself.
//!
//! In a simulation no thread is started: a job is a task there, and runs to its end when its turn comes. What is
//! awaited (`blocking`) is done in place there.

use crate::{simulated, task};
use std::collections::VecDeque;
use std::io::Result;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a thread without a job stays. Longer than a pause between files, short enough that the threads of a burst
/// end soon.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Threads without a job that stay at most. Each keeps memory that its jobs have freed, until it ends or works again:
/// hundreds of them after a burst had hundreds of megabytes.
const IDLE_COUNT_MAX: usize = 64;

/// By how much patient threads are nicer than the program: they get a tenth of another's share of a core that many
/// want.
const PATIENT_NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// When it is dropped, jobs under way go on to their ends, and the threads with them.
#[derive(Debug)]
pub struct CachedThreads {
    name: &'static str,
    is_patient: bool,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    job_added: Condvar,
    idle_count_max: usize,
}

#[derive(Default)]
struct State {
    /// Never more than there are threads waiting.
    jobs: VecDeque<Job>,
    idle_count: usize,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl CachedThreads {
    pub fn new(name: &'static str) -> Self {
        Self::with(name, false, IDLE_COUNT_MAX)
    }

    /// Where cores are short, all others go first: for long jobs beside short ones that somebody waits for. They must
    /// hold no lock for long that those take. `idle_count_max`: so many threads stay at most without a job.
    pub fn patient(name: &'static str, idle_count_max: usize) -> Self {
        Self::with(name, true, idle_count_max)
    }

    fn with(name: &'static str, is_patient: bool, idle_count_max: usize) -> Self {
        let shared = Shared { state: Mutex::default(), job_added: Condvar::new(), idle_count_max };
        Self { name, is_patient, shared: Arc::new(shared) }
    }

    /// Starts a job on a thread that has none, or on a new one. `Err`: the machine has no thread left.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let job: Job = Box::new(job);
        if simulated::is_simulated() {
            // Not in place: whoever asks for it may hold what the job needs.
            task::spawn(self.name, async move { job() });
            return Ok(());
        }
        {
            let mut state = self.shared.lock();
            if state.idle_count > state.jobs.len() {
                state.jobs.push_back(job);
                drop(state);
                self.shared.job_added.notify_one();
                return Ok(());
            }
        }
        let (name, is_patient, shared) = (self.name, self.is_patient, Arc::clone(&self.shared));
        task::thread(name, move || {
            if is_patient {
                // Of this thread alone, as Linux has it; without it the job is done all the same.
                if let Err(error) = rustix::process::nice(PATIENT_NICE) {
                    tracing::debug!(thread = name, %error, "a thread keeps its priority");
                }
            }
            let mut job = Some(job);
            while let Some(run) = job.take() {
                task::reported(name, run);
                job = shared.next();
            }
        })
        .map(drop)
    }

    /// As [`task::blocking`], on these threads, where there is no runtime: what they keep of the memory that jobs have
    /// freed is bounded by how many of them stay. Where the machine has no thread left it waits for one of the
    /// runtime's.
    pub async fn blocking<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        if simulated::is_simulated() {
            return run();
        }
        let (sender, output) = oneshot::channel();
        let kept = Arc::new(Mutex::new(Some((run, sender))));
        let take = |kept: &Mutex<Option<_>>| kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let for_job = Arc::clone(&kept);
        let begun = self.run(move || {
            let Some((run, sender)) = take(&for_job) else { return };
            let outcome = catch_unwind(AssertUnwindSafe(run));
            if let Err(Err(panic)) = sender.send(outcome) {
                resume_unwind(panic); // nobody waits: it is reported here
            }
        });
        if begun.is_err()
            && let Some((run, _)) = take(&kept)
        {
            return task::blocking(run).await;
        }
        drop(kept);
        match output.await.expect("a job that began ends") {
            Ok(output) => output,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Drop for CachedThreads {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.job_added.notify_all();
    }
}

impl Shared {
    /// The next job of a thread; `None`: it is to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.idle_count >= self.idle_count_max {
            return None; // the threads that are idle do what comes
        }
        state.idle_count += 1;
        let (mut state, _timed_out) = self
            .job_added
            .wait_timeout_while(state, IDLE_MAX, |state| state.jobs.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.idle_count -= 1;
        state.jobs.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of others runs under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread::ThreadId;

    fn id_of_next(threads: &CachedThreads) -> ThreadId {
        let (sender, receiver) = mpsc::channel();
        threads.run(move || sender.send(std::thread::current().id()).unwrap()).unwrap();
        let id = receiver.recv().unwrap();
        until_idle(threads);
        id
    }

    fn until_idle(threads: &CachedThreads) {
        while threads.shared.lock().idle_count == 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_takes_one_job_after_the_other() {
        let threads = CachedThreads::new("test");
        let first = id_of_next(&threads);
        assert_eq!(id_of_next(&threads), first);
        threads.shared.lock().jobs.push_back(Box::new(|| panic!("on purpose")));
        threads.shared.job_added.notify_one();
        while !threads.shared.lock().jobs.is_empty() {
            std::thread::yield_now();
        }
        until_idle(&threads);
        assert_eq!(id_of_next(&threads), first, "a panic costs the job, not the thread");
    }

    #[tokio::test]
    async fn who_waits_gets_what_was_made_or_the_panic() {
        let threads = CachedThreads::new("test");
        assert_eq!(threads.blocking(|| 3).await, 3);
        let outer = task::spawn("caller", async move { threads.blocking(|| panic!("on purpose")).await });
        assert_eq!(outer.await, Err::<(), _>(task::Ended { panicked: true }));
    }

    #[test]
    fn patient_threads_alone_wait_for_others() {
        let here = || rustix::process::getpriority_process(None).unwrap();
        let of = |threads: CachedThreads| {
            let (sender, receiver) = mpsc::channel();
            threads.run(move || sender.send(here()).unwrap()).unwrap();
            receiver.recv().unwrap()
        };
        assert_eq!(of(CachedThreads::new("test")), here());
        assert_eq!(of(CachedThreads::patient("test", 1)), (here() + PATIENT_NICE).min(19));
    }

    /// Each waits for all others: so none may wait for a thread.
    #[test]
    fn no_job_waits_for_another_to_end() {
        let threads = CachedThreads::new("test");
        for _ in 0..20 {
            let barrier = Arc::new(std::sync::Barrier::new(9));
            for _ in 0..8 {
                let barrier = Arc::clone(&barrier);
                threads.run(move || _ = barrier.wait()).unwrap();
            }
            barrier.wait();
        }
    }

    #[test]
    fn after_a_burst_a_few_threads_stay() {
        let threads = CachedThreads::new("test");
        let barrier = Arc::new(std::sync::Barrier::new(3 * IDLE_COUNT_MAX));
        for _ in 0..3 * IDLE_COUNT_MAX {
            let barrier = Arc::clone(&barrier);
            threads.run(move || _ = barrier.wait()).unwrap();
        }
        // Each thread has a handle, and so has the owner.
        while Arc::strong_count(&threads.shared) > IDLE_COUNT_MAX + 1 {
            assert!(threads.shared.lock().idle_count <= IDLE_COUNT_MAX);
            std::thread::yield_now();
        }
    }

    #[test]
    fn idle_threads_end_with_their_owner() {
        let threads = CachedThreads::new("test");
        id_of_next(&threads);
        let shared = Arc::clone(&threads.shared);
        drop(threads);
        while Arc::strong_count(&shared) > 1 {
            std::thread::yield_now();
        }
    }
}
