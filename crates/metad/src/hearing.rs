//! Since when this server hears its datanodes.
//!
//! Promise: a process that stood still, as when its machine was suspended, does not take that for the silence of others. Whoever asks
//! first after such a pause learns that hearing begins now.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Hearing {
    /// Longest time between two looks in which nothing was missed.
    pause_max: Duration,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    since: Duration,
    looked: Duration,
}

impl Hearing {
    pub(crate) fn new(now: Duration, pause_max: Duration) -> Self {
        Self { pause_max, times: Mutex::new(Times { since: now, looked: now }) }
    }

    /// To be asked more often than pauses may be long.
    pub(crate) fn since(&self, now: Duration) -> Duration {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_sub(times.looked);
        if passed > self.pause_max {
            tracing::warn!(?passed, "this server stood still; it listens to the datanodes anew");
            times.since = now;
        }
        times.looked = times.looked.max(now);
        times.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_it_anew() {
        let second = Duration::from_secs;
        let hearing = Hearing::new(second(10), second(3));
        for now in [10, 13, 16, 15, 19] {
            assert_eq!(hearing.since(second(now)), second(10), "at {now}");
        }
        for (now, since) in [(23, 23), (24, 23), (27, 23), (31, 31)] {
            assert_eq!(hearing.since(second(now)), second(since), "at {now}");
        }
    }
}
