//! Waiting for time: tokio's timers, or those of a simulation ([`crate::simulated`]).
//!
//! A [`Moment`] counts the time that the machine slept, a wait does not: it may come back late. So what was promised
//! for a time is looked up by moments, never taken from a wait that has not ended.

use crate::simulated::simulator;
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A moment of the clock that does not jump, and does not stand still while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        let simulated = simulator().map(|simulator| simulator.now());
        Self(simulated.unwrap_or_else(crate::clock::since_boot))
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

/// Completes when the time has passed.
pub struct Sleep(Timer);

enum Timer {
    Tokio(Pin<Box<tokio::time::Sleep>>),
    Simulated { until: Duration, timer: Option<u64> },
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

pub fn sleep(time: Duration) -> Sleep {
    Sleep(match simulator() {
        Some(simulator) => Timer::Simulated { until: simulator.now().saturating_add(time), timer: None },
        None => Timer::Tokio(Box::pin(tokio::time::sleep(time))),
    })
}

pub fn sleep_until(moment: Moment) -> Sleep {
    sleep(moment - Moment::now())
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Timer::Tokio(sleep) => sleep.as_mut().poll(context),
            Timer::Simulated { until, timer } => {
                // A simulator that is gone wakes nobody: the task that waits is about to be dropped.
                let Some(simulator) = simulator() else { return Poll::Pending };
                if let Some(timer) = timer.take() {
                    simulator.cancel_timer(timer);
                }
                if simulator.now() >= *until {
                    return Poll::Ready(());
                }
                *timer = Some(simulator.set_timer(*until, context.waker()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Timer::Simulated { timer: Some(timer), .. } = self.0
            && let Some(simulator) = simulator()
        {
            simulator.cancel_timer(timer);
        }
    }
}

/// The time limit passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out")
    }
}

/// What [`timeout`] gives.
#[derive(Debug)]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// `Err` if the time limit passes first. The future is polled before the time is looked at.
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(time) }
}

pub fn timeout_at<F: Future>(moment: Moment, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep_until(moment) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_simulator_time_is_tokios() {
        let begun = Moment::now();
        sleep(Duration::from_millis(2)).await;
        assert!(begun.elapsed() >= Duration::from_millis(2));
        assert_eq!(begun - Moment::now(), Duration::ZERO, "time does not go backwards");
        assert_eq!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(timeout_at(Moment::now(), async { 7 }).await, Ok(7));
    }

    /// Linux tells in the same file, by the clock that goes on while the machine sleeps.
    #[test]
    fn moments_are_counted_from_the_start_of_the_machine() {
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let (before, now, after) = (uptime(), Moment::now().0.as_secs_f64(), uptime());
        assert!((before - 0.1..=after + 0.1).contains(&now), "{before} .. {now} .. {after}");
    }
}
