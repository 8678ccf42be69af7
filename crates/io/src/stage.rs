//! Where tasks run, what time it is and what chance says: tokio's runtime and the machine, or a stage that somebody
//! plays on.
//!
//! Promise: while a [`Stage`] is set on a thread, whatever that thread starts, waits for and draws through this module
//! is the stage's: no thread is started, no real clock is read, and nothing is left to chance but what the stage draws.
//! Where none is set, which is everywhere but in simulations, everything is tokio's and the kernel's.
//!
//! A [`Moment`] counts the time that the machine slept, a wait does not: it may come back late. So what was promised
//! for a time is looked up by moments, never taken from a wait that has not ended.

use crate::random::OsRandom;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use types::Random;

/// What a stage is given to run.
pub type Scene = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks in an order of its own, on a clock of its own.
pub trait Stage {
    /// Since some moment that never changes.
    fn now(&self) -> Duration;

    fn draw(&self) -> u64;

    /// Starts a task, and gives it a number that no other has.
    fn begin(&self, scene: Scene) -> u64;

    /// Whether a task is still there.
    fn has(&self, task: u64) -> bool;

    /// Drops a task where it stands, if it is still there. It may be the one that runs.
    fn end(&self, task: u64);

    /// Wakes somebody at a time; the number is to be used for [`Stage::forget`].
    fn wake_at(&self, at: Duration, waker: &Waker) -> u64;

    fn forget(&self, alarm: u64);
}

thread_local! {
    static STAGE: RefCell<Option<Rc<dyn Stage>>> = const { RefCell::new(None) };
}

/// While this lives, the thread plays on a stage.
pub struct Played(());

impl fmt::Debug for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Played")
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        STAGE.with_borrow_mut(|set| *set = None);
    }
}

/// Sets the stage of this thread, on which there was none.
pub fn play(stage: Rc<dyn Stage>) -> Played {
    let before = STAGE.with_borrow_mut(|set| set.replace(stage));
    assert!(before.is_none(), "one stage at a time");
    Played(())
}

/// The stage of this thread.
pub(crate) fn stage() -> Option<Rc<dyn Stage>> {
    // A thread that ends has none any more.
    STAGE.try_with(|set| set.borrow().clone()).ok().flatten()
}

pub fn is_played() -> bool {
    stage().is_some()
}

/// A number by chance.
pub fn draw() -> u64 {
    stage().map_or_else(|| OsRandom::new().next_u64(), |stage| stage.draw())
}

/// A moment of the clock that does not jump, and does not stand still while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        let played = STAGE.with_borrow(|set| set.as_ref().map(|stage| stage.now()));
        Self(played.unwrap_or_else(crate::clock::since_boot))
    }

    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    /// The first moment there is, if there was none so long ago.
    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, time: Duration) {
        *self = *self - time;
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// Zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Comes back when the time is over.
pub struct Sleep(Rest);

enum Rest {
    Tokio(Pin<Box<tokio::time::Sleep>>),
    Staged { until: Duration, alarm: Option<u64> },
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

pub fn sleep(time: Duration) -> Sleep {
    Sleep(match stage() {
        Some(stage) => Rest::Staged { until: stage.now().saturating_add(time), alarm: None },
        None => Rest::Tokio(Box::pin(tokio::time::sleep(time))),
    })
}

pub fn sleep_until(moment: Moment) -> Sleep {
    sleep(moment - Moment::now())
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Rest::Tokio(sleep) => sleep.as_mut().poll(context),
            Rest::Staged { until, alarm } => {
                // A stage that is gone wakes nobody: whoever waits is about to be dropped.
                let Some(stage) = stage() else { return Poll::Pending };
                if let Some(alarm) = alarm.take() {
                    stage.forget(alarm);
                }
                if stage.now() >= *until {
                    return Poll::Ready(());
                }
                *alarm = Some(stage.wake_at(*until, context.waker()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Rest::Staged { alarm: Some(alarm), .. } = self.0
            && let Some(stage) = stage()
        {
            stage.forget(alarm);
        }
    }
}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

/// What [`timeout`] gives.
#[derive(Debug)]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// `Err` if the time is over first. The future is asked first.
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(time) }
}

pub fn timeout_at<F: Future>(moment: Moment, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep_until(moment) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Late>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached_threads::CachedThreads;
    use crate::task;

    #[tokio::test]
    async fn without_a_stage_all_is_tokios() {
        assert!(!is_played());
        let begun = Moment::now();
        sleep(Duration::from_millis(2)).await;
        assert!(begun.elapsed() >= Duration::from_millis(2));
        assert_eq!(begun - Moment::now(), Duration::ZERO, "time does not go backwards");
        assert_eq!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await, Err(Late));
        assert_eq!(timeout_at(Moment::now(), async { 7 }).await, Ok(7));
        assert_ne!(draw(), draw());
    }

    /// Linux tells in the same file, by the clock that goes on while the machine sleeps.
    #[test]
    fn moments_are_counted_from_the_start_of_the_machine() {
        let uptime = || -> f64 {
            let told = std::fs::read_to_string("/proc/uptime").unwrap();
            told.split(' ').next().unwrap().parse().unwrap()
        };
        let (before, now, after) = (uptime(), Moment::now().0.as_secs_f64(), uptime());
        assert!((before - 0.1..=after + 0.1).contains(&now), "{before} .. {now} .. {after}");
    }

    /// A stage that keeps what it is given, and never runs it.
    #[derive(Default)]
    struct Still(RefCell<Vec<String>>);

    impl Stage for Still {
        fn now(&self) -> Duration {
            Duration::from_secs(5)
        }

        fn draw(&self) -> u64 {
            4
        }

        fn begin(&self, _scene: Scene) -> u64 {
            self.0.borrow_mut().push("begin".into());
            11
        }

        fn has(&self, task: u64) -> bool {
            task == 11 && !self.0.borrow().iter().any(|done| done == "end 11")
        }

        fn end(&self, task: u64) {
            self.0.borrow_mut().push(format!("end {task}"));
        }

        fn wake_at(&self, at: Duration, _waker: &Waker) -> u64 {
            self.0.borrow_mut().push(format!("wake at {at:?}"));
            12
        }

        fn forget(&self, alarm: u64) {
            self.0.borrow_mut().push(format!("forget {alarm}"));
        }
    }

    #[test]
    fn on_a_stage_nothing_is_anyone_elses() {
        let still = Rc::new(Still::default());
        let played = play(Rc::<Still>::clone(&still));
        let mut context = Context::from_waker(Waker::noop());
        let mut rest = sleep(Duration::from_secs(2));
        assert!(Pin::new(&mut rest).poll(&mut context).is_pending());
        drop(rest);
        let owned = task::spawn_owned("a task", async {});
        assert!(!owned.is_finished());
        owned.abort();
        assert!(owned.is_finished());
        drop(owned);
        assert_eq!((draw(), Moment::now().elapsed()), (4, Duration::ZERO));
        let mut work = Box::pin(task::blocking(|| 7));
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(7), "blocking work is done in place");
        CachedThreads::new("cached threads").run(|| panic!("a stage that runs nothing")).unwrap();
        drop(played);
        assert_eq!(*still.0.borrow(), ["wake at 7s", "forget 12", "begin", "end 11", "end 11", "begin"]);
        assert!(!is_played());
    }
}
