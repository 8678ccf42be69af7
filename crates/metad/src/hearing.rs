//! Since when this server hears its datanodes.
//!
//! Promise: a process that stood still, as when its machine was suspended, does not take that for the silence of others. Whoever asks
//! first after such a pause learns that hearing begins now.

use io::{Clock, SystemClock};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Hearing {
    /// By which this process lives, whatever clock its decisions go by.
    machine: Arc<dyn Clock>,
    /// Longest time between two looks in which nothing was missed.
    pause_max: Duration,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// By the clock of the decisions, and by the machine's.
    since: Duration,
    looked: Duration,
}

impl Hearing {
    pub(crate) fn new(now: Duration, pause_max: Duration) -> Self {
        Self::by(Arc::new(SystemClock::new()), now, pause_max)
    }

    fn by(machine: Arc<dyn Clock>, now: Duration, pause_max: Duration) -> Self {
        let looked = machine.monotonic();
        Self { machine, pause_max, times: Mutex::new(Times { since: now, looked }) }
    }

    /// To be asked more often than pauses may be long.
    pub(crate) fn since(&self, now: Duration) -> Duration {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = self.machine.monotonic();
        let passed = looked.saturating_sub(times.looked);
        if passed > self.pause_max {
            tracing::warn!(?passed, "this server stood still; it listens to the datanodes anew");
            times.since = now;
        }
        times.looked = times.looked.max(looked);
        times.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_it_anew() {
        let second = Duration::from_secs;
        let machine = Arc::new(io::ManualClock::at(types::Millis(0)));
        let hearing = Hearing::by(Arc::clone(&machine) as Arc<dyn Clock>, second(10), second(3));
        for (passed, now, since) in [(0, 10, 10), (3, 40, 10), (3, 43, 10), (4, 47, 47), (1, 90, 47), (5, 95, 95)] {
            machine.advance(second(passed));
            assert_eq!(hearing.since(second(now)), second(since), "at {now}");
        }
    }
}
