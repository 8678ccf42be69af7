//! A bounded part of the runtime's blocking threads, for what may hang together: the work of one disk.
//!
//! ```text
//! run ──▶ a place free? ──yes──▶ a thread of the pool ──▶ done
//!            └ no: waits as a task ──▶ one comes free, or nothing ended for STUCK_AFTER: refused
//! ```
//!
//! Promise: the work of a share never holds more threads than it was given, so what hangs in one share leaves threads
//! for all others. Who waits for a place, or for work that [`Share::give_up`] wrote off, holds no thread, and hears of
//! it.

use crate::task;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All places are taken, and nothing ended for so long: what is done there hangs. A guess: a disk that is merely busy
/// ends hundreds of reads meanwhile.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// No work is known to have ended yet when nothing hangs.
const NEVER: u64 = u64::MAX;

/// The work was not done, or nobody knows whether it was: what it needs hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it does not answer")
    }
}

impl std::error::Error for Stuck {}

/// Clones are the same share.
#[derive(Clone, Debug)]
pub struct Share {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    thread_count_max: usize,
    places: Mutex<Arc<Semaphore>>,
    /// Counts what has ended.
    ended: AtomicU64,
    /// The count at which nothing had ended for a while. As long as it stands, nobody waits for a place.
    stuck_at: AtomicU64,
    given_up: Notify,
    stuck_after: Duration,
}

/// A place, until it is dropped with the end of its work.
struct Place {
    inner: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Share {
    pub fn new(thread_count_max: usize) -> Self {
        Self::with(thread_count_max, STUCK_AFTER)
    }

    fn with(thread_count_max: usize, stuck_after: Duration) -> Self {
        let thread_count_max = thread_count_max.clamp(1, Semaphore::MAX_PERMITS);
        let places = Mutex::new(Arc::new(Semaphore::new(thread_count_max)));
        let (ended, stuck_at, given_up) = (AtomicU64::new(0), AtomicU64::new(NEVER), Notify::new());
        Self { inner: Arc::new(Inner { thread_count_max, places, ended, stuck_at, given_up, stuck_after }) }
    }

    /// Runs what may wait for a disk, as [`task::blocking`] does. Work that hangs keeps its thread and its place,
    /// whether somebody waits for it or not.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Stuck> {
        let place = self.place().await?;
        let given_up = self.inner.given_up.notified();
        let done = task::blocking(move || {
            let _place = place;
            work()
        });
        tokio::select! {
            biased;
            done = done => Ok(done),
            () = given_up => Err(Stuck),
        }
    }

    async fn place(&self) -> Result<Place, Stuck> {
        let inner = &self.inner;
        let place = |permit| Place { inner: Arc::clone(inner), _permit: permit };
        loop {
            let mut given_up = std::pin::pin!(inner.given_up.notified());
            let places = self.places();
            if let Ok(permit) = Arc::clone(&places).try_acquire_owned() {
                return Ok(place(permit));
            }
            let mut permit = std::pin::pin!(Arc::clone(&places).acquire_owned());
            loop {
                let ended = inner.ended.load(Ordering::Relaxed);
                if inner.stuck_at.load(Ordering::Relaxed) == ended {
                    return Err(Stuck);
                }
                tokio::select! {
                    biased;
                    permit = &mut permit => return permit.map(place).map_err(|_never_closed| Stuck),
                    () = &mut given_up => break,
                    () = tokio::time::sleep(inner.stuck_after) => {}
                }
                if inner.ended.load(Ordering::Relaxed) == ended {
                    inner.stuck_at.store(ended, Ordering::Relaxed);
                }
            }
            if Arc::ptr_eq(&places, &self.places()) {
                return Err(Stuck);
            }
        }
    }

    /// As [`Self::give_up`]; and what hangs keeps its threads, but its places are others' now. To be called a bounded
    /// number of times.
    pub fn renew(&self) {
        let fresh = Arc::new(Semaphore::new(self.inner.thread_count_max));
        *self.inner.places.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.inner.stuck_at.store(NEVER, Ordering::Relaxed);
        self.give_up();
    }

    fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.inner.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nobody waits any longer for what is under way. What comes from now on is begun as before, if there is a place.
    pub fn give_up(&self) {
        self.inner.given_up.notify_waiters();
    }

    /// Ends at the next [`Self::give_up`], counted from this call.
    pub fn given_up(&self) -> impl Future<Output = ()> {
        self.inner.given_up.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Two pieces of work hang: that is all there is room for, and others go on.
    #[tokio::test]
    async fn what_hangs_holds_its_share_and_no_more() {
        let (share, other) = (Share::with(2, Duration::from_millis(100)), Share::new(1));
        let (wake, asleep): (mpsc::Sender<()>, _) = mpsc::channel();
        let asleep = Arc::new(std::sync::Mutex::new(asleep));
        let hanging: Vec<_> = (0..2)
            .map(|_| {
                let (share, asleep) = (share.clone(), Arc::clone(&asleep));
                task::spawn("hangs", async move { share.run(move || asleep.lock().unwrap().recv().is_ok()).await })
            })
            .collect();
        while share.places().available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(other.run(|| 7).await, Ok(7));
        assert_eq!(share.run(|| 8).await, Err(Stuck));
        assert_eq!(share.run(|| 9).await, Err(Stuck), "at once");
        // It wakes up after all.
        wake.send(()).unwrap();
        wake.send(()).unwrap();
        for hung in hanging {
            assert_eq!(hung.await.unwrap(), Ok(true));
        }
        assert_eq!(share.run(|| 10).await, Ok(10));
    }

    #[tokio::test]
    async fn what_was_given_up_is_not_waited_for() {
        let share = Share::new(2);
        let (wake, asleep) = mpsc::channel::<()>();
        let hung = task::spawn("hangs", {
            let share = share.clone();
            async move { share.run(move || asleep.recv().is_ok()).await }
        });
        while share.places().available_permits() == 2 {
            tokio::task::yield_now().await;
        }
        while !hung.is_finished() {
            share.give_up();
            tokio::task::yield_now().await;
        }
        assert_eq!(hung.await.unwrap(), Err(Stuck));
        assert_eq!(share.run(|| 1).await, Ok(1), "the other place is free");
        assert_eq!(share.places().available_permits(), 1);
        share.renew();
        assert_eq!(share.places().available_permits(), 2);
        drop(wake);
    }

    /// Who waits for a place hears at once that what holds it was given up, or gets another.
    #[tokio::test]
    async fn who_waits_for_a_place_is_told_as_well() {
        let share = Share::with(1, Duration::from_secs(3600));
        let (wake, asleep) = mpsc::channel::<()>();
        let hung = task::spawn("hangs", {
            let share = share.clone();
            async move { share.run(move || asleep.recv().is_ok()).await }
        });
        while share.places().available_permits() == 1 {
            tokio::task::yield_now().await;
        }
        let mut first = Box::pin(share.run(|| 7));
        assert!(look_once(&mut first).await.is_pending());
        share.give_up();
        assert_eq!(first.await, Err(Stuck));
        assert_eq!(hung.await.unwrap(), Err(Stuck));
        let mut second = Box::pin(share.run(|| 7));
        assert!(look_once(&mut second).await.is_pending());
        share.renew();
        assert_eq!(second.await, Ok(7));
        drop(wake);
    }

    /// Looks once.
    async fn look_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
        std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context))).await
    }
}
