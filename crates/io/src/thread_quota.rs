//! How many of the runtime's blocking threads may be held by what may hang together: the work of one disk.
//!
//! ```text
//! run ──▶ a permit free? ──yes──▶ a thread of the pool ──▶ done
//!            └ no: waits as a task ──▶ one comes free, or nothing ended for HUNG_AFTER: refused
//! ```
//!
//! Promise: the work of a quota never holds more threads than the quota allows, so what hangs in one leaves threads for
//! all others. A caller that waits for a permit, or for work that [`ThreadQuota::abandon`] wrote off, holds no thread,
//! and gets an error.

use crate::task;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All permits are taken, and nothing ended for so long: what is done there hangs. A guess: a disk that is merely busy
/// ends hundreds of reads meanwhile.
const HUNG_AFTER: Duration = Duration::from_secs(5);
/// No work is known to have ended yet when nothing hangs.
const NEVER: u64 = u64::MAX;

/// The work was not done, or nobody knows whether it was: what it needs hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hung;

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it does not answer")
    }
}

impl std::error::Error for Hung {}

/// Clones are the same quota.
#[derive(Clone, Debug)]
pub struct ThreadQuota {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    thread_count_max: usize,
    permits: Mutex<Arc<Semaphore>>,
    /// Counts what has ended.
    ended: AtomicU64,
    /// The count at which nothing had ended for a while. As long as it stands, nobody waits for a permit.
    hung_at: AtomicU64,
    abandoned: Notify,
    hung_after: Duration,
}

/// Held until its work ends.
struct Permit {
    inner: Arc<Inner>,
    _of_semaphore: OwnedSemaphorePermit,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl ThreadQuota {
    pub fn new(thread_count_max: usize) -> Self {
        Self::with(thread_count_max, HUNG_AFTER)
    }

    fn with(thread_count_max: usize, hung_after: Duration) -> Self {
        let thread_count_max = thread_count_max.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Mutex::new(Arc::new(Semaphore::new(thread_count_max)));
        let (ended, hung_at, abandoned) = (AtomicU64::new(0), AtomicU64::new(NEVER), Notify::new());
        Self { inner: Arc::new(Inner { thread_count_max, permits, ended, hung_at, abandoned, hung_after }) }
    }

    /// Runs what may wait for a disk, as [`task::blocking`] does. Work that hangs keeps its thread and its permit,
    /// whether somebody waits for it or not.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Hung> {
        let permit = self.permit().await?;
        let abandoned = self.inner.abandoned.notified();
        let done = task::blocking(move || {
            let _permit = permit;
            work()
        });
        tokio::select! {
            biased;
            done = done => Ok(done),
            () = abandoned => Err(Hung),
        }
    }

    async fn permit(&self) -> Result<Permit, Hung> {
        let inner = &self.inner;
        let held = |permit| Permit { inner: Arc::clone(inner), _of_semaphore: permit };
        loop {
            let mut abandoned = std::pin::pin!(inner.abandoned.notified());
            let permits = self.permits();
            if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
                return Ok(held(permit));
            }
            let mut permit = std::pin::pin!(Arc::clone(&permits).acquire_owned());
            loop {
                let ended = inner.ended.load(Ordering::Relaxed);
                if inner.hung_at.load(Ordering::Relaxed) == ended {
                    return Err(Hung);
                }
                tokio::select! {
                    biased;
                    permit = &mut permit => return permit.map(held).map_err(|_never_closed| Hung),
                    () = &mut abandoned => break,
                    () = tokio::time::sleep(inner.hung_after) => {}
                }
                if inner.ended.load(Ordering::Relaxed) == ended {
                    inner.hung_at.store(ended, Ordering::Relaxed);
                }
            }
            if Arc::ptr_eq(&permits, &self.permits()) {
                return Err(Hung);
            }
        }
    }

    /// As [`Self::abandon`]; and what hangs keeps its threads, but others get new permits in place of its own. To be
    /// called a bounded number of times.
    pub fn replace_permits(&self) {
        let fresh = Arc::new(Semaphore::new(self.inner.thread_count_max));
        *self.inner.permits.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.inner.hung_at.store(NEVER, Ordering::Relaxed);
        self.abandon();
    }

    fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.inner.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nobody waits any longer for what is under way. What comes from now on is begun as before, if there is a permit.
    pub fn abandon(&self) {
        self.inner.abandoned.notify_waiters();
    }

    /// Ends at the next [`Self::abandon`], counted from this call.
    pub fn abandoned(&self) -> impl Future<Output = ()> {
        self.inner.abandoned.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Two pieces of work hang: that is all there is room for, and others go on.
    #[tokio::test]
    async fn what_hangs_holds_its_quota_and_no_more() {
        let (quota, other) = (ThreadQuota::with(2, Duration::from_millis(100)), ThreadQuota::new(1));
        let (wake, asleep): (mpsc::Sender<()>, _) = mpsc::channel();
        let asleep = Arc::new(std::sync::Mutex::new(asleep));
        let hanging: Vec<_> = (0..2)
            .map(|_| {
                let (quota, asleep) = (quota.clone(), Arc::clone(&asleep));
                task::spawn("hangs", async move { quota.run(move || asleep.lock().unwrap().recv().is_ok()).await })
            })
            .collect();
        while quota.permits().available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(other.run(|| 7).await, Ok(7));
        assert_eq!(quota.run(|| 8).await, Err(Hung));
        assert_eq!(quota.run(|| 9).await, Err(Hung), "at once");
        // It wakes up after all.
        wake.send(()).unwrap();
        wake.send(()).unwrap();
        for hung in hanging {
            assert_eq!(hung.await.unwrap(), Ok(true));
        }
        assert_eq!(quota.run(|| 10).await, Ok(10));
    }

    #[tokio::test]
    async fn nobody_waits_for_abandoned_work() {
        let quota = ThreadQuota::new(2);
        let (wake, asleep) = mpsc::channel::<()>();
        let hung = task::spawn("hangs", {
            let quota = quota.clone();
            async move { quota.run(move || asleep.recv().is_ok()).await }
        });
        while quota.permits().available_permits() == 2 {
            tokio::task::yield_now().await;
        }
        while !hung.is_finished() {
            quota.abandon();
            tokio::task::yield_now().await;
        }
        assert_eq!(hung.await.unwrap(), Err(Hung));
        assert_eq!(quota.run(|| 1).await, Ok(1), "the other permit is free");
        assert_eq!(quota.permits().available_permits(), 1);
        quota.replace_permits();
        assert_eq!(quota.permits().available_permits(), 2);
        drop(wake);
    }

    /// A caller that waits for a permit fails at once if what holds it is abandoned, or gets a new one.
    #[tokio::test]
    async fn abandoning_reaches_those_who_wait_for_a_permit() {
        let quota = ThreadQuota::with(1, Duration::from_secs(3600));
        let (wake, asleep) = mpsc::channel::<()>();
        let hung = task::spawn("hangs", {
            let quota = quota.clone();
            async move { quota.run(move || asleep.recv().is_ok()).await }
        });
        while quota.permits().available_permits() == 1 {
            tokio::task::yield_now().await;
        }
        let mut first = Box::pin(quota.run(|| 7));
        assert!(poll_once(&mut first).await.is_pending());
        quota.abandon();
        assert_eq!(first.await, Err(Hung));
        assert_eq!(hung.await.unwrap(), Err(Hung));
        let mut second = Box::pin(quota.run(|| 7));
        assert!(poll_once(&mut second).await.is_pending());
        quota.replace_permits();
        assert_eq!(second.await, Ok(7));
        drop(wake);
    }

    /// Polls once.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
        std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context))).await
    }
}
