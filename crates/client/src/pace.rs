//! How fast datanodes answer, so that one that takes unusually long is not waited for while others have the same block.
//!
//! Promise: whatever the store is like, it sees one read in twenty more than without this at most, and a few at the
//! beginning; a client that met a slow node asks it last for a while, so it pays once.

use io::Clock;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    clock: io::SystemClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last answers' times, the oldest overwritten first.
    recent: Vec<Duration>,
    next: usize,
    /// Of those; computed anew now and then.
    p95: Option<Duration>,
    /// Twentieths of reads that may be asked for a second time; what was taken is negative.
    spare: i64,
    /// Nodes that kept somebody waiting, and since when.
    slow: HashMap<String, Duration>,
}

/// Answers remembered: enough that twelve of them are above the 95th percentile.
const RECENT_COUNT: usize = 256;
/// As many answers there must be, and come between two computations.
const COMPUTE_EACH: usize = 32;
/// Asking another node costs a connection and a disk's seek; below this it saves nothing. A guess.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
/// What is usual may come from the slow node alone, so it is not believed beyond this: what a disk's seek takes when
/// others wait for it too. From farther away than this the second asking is in vain, which is why it is counted.
const PATIENCE_MAX: Duration = Duration::from_millis(40);
/// In mid-stream a node is given up, not raced, so it gets more time.
const STALL_FACTOR: u32 = 4;
const STALL_MIN: Duration = Duration::from_millis(60);
const STALL_MAX: Duration = Duration::from_secs(2);
/// Each so many reads one may be asked for twice, and so many from the beginning.
const READS_PER_SPARE: i64 = 20;
const SPARE_COUNT_MAX: i64 = 4;
/// Bytes that a healthy node brings in a second, at the least: what an answer's length adds to its time.
const BYTES_PER_S: u64 = 50_000_000;
/// How long a slow node is asked last.
const SLOW_FOR: Duration = Duration::from_secs(10);

impl Pace {
    /// For measuring: the time now.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// A node began to answer after this time.
    pub(crate) fn took(&self, time: Duration) {
        let mut state = self.state();
        state.spare = (state.spare + 1).min(0);
        let place = state.next;
        match state.recent.get_mut(place) {
            Some(oldest) => *oldest = time,
            None => state.recent.push(time),
        }
        state.next = (place + 1) % RECENT_COUNT;
        if state.next.is_multiple_of(COMPUTE_EACH) {
            let mut sorted = state.recent.clone();
            sorted.sort_unstable();
            state.p95 = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }

    /// How long to wait for `len` bytes before another node is asked for them too.
    pub(crate) fn patience(&self, len: u64) -> Duration {
        let usual = self.state().p95.map_or(PATIENCE_MAX, |p95| p95.clamp(PATIENCE_MIN, PATIENCE_MAX));
        usual + Duration::from_millis(len * 1000 / BYTES_PER_S)
    }

    /// How long a stream may bring nothing before another node goes on with it; `None`: this was done often enough.
    pub(crate) fn stall(&self) -> Option<Duration> {
        let state = self.state();
        let usual = state.p95.map_or(STALL_MAX, |p95| (p95 * STALL_FACTOR).clamp(STALL_MIN, STALL_MAX));
        (state.spare > -SPARE_COUNT_MAX * READS_PER_SPARE).then_some(usual)
    }

    /// Whether one more read may be asked for twice. If so, it counts as asked.
    pub(crate) fn take_spare(&self) -> bool {
        let mut state = self.state();
        let may = state.spare > -SPARE_COUNT_MAX * READS_PER_SPARE;
        state.spare -= if may { READS_PER_SPARE } else { 0 };
        may
    }

    /// `addr` was slower than another node, or than is usual.
    pub(crate) fn note_slow(&self, addr: &str) {
        let now = self.now();
        let mut state = self.state();
        state.slow.retain(|_, since| now.saturating_sub(*since) < SLOW_FOR);
        state.slow.insert(addr.to_owned(), now);
    }

    pub(crate) fn is_slow(&self, addr: &str) -> bool {
        let now = self.now();
        self.state().slow.get(addr).is_some_and(|since| now.saturating_sub(*since) < SLOW_FOR)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_what_is_usual() {
        let pace = Pace::default();
        assert_eq!(pace.patience(0), PATIENCE_MAX);
        for number in 0..64 {
            pace.took(Duration::from_millis(if number % 32 == 0 { 900 } else { 20 }));
        }
        assert_eq!(pace.patience(0), Duration::from_millis(20), "one slow answer in thirty-two changes nothing");
        assert_eq!(pace.patience(50_000_000), Duration::from_millis(1020));
        assert_eq!(pace.stall(), Some(Duration::from_millis(80)));
        for _ in 0..RECENT_COUNT {
            pace.took(Duration::from_micros(100));
        }
        assert_eq!((pace.patience(0), pace.stall()), (PATIENCE_MIN, Some(STALL_MIN)));
    }

    #[test]
    fn a_slow_store_is_not_asked_for_everything_twice() {
        let pace = Pace::default();
        let asked_twice = (0..2000).filter(|_| {
            pace.took(Duration::from_secs(1));
            pace.take_spare()
        });
        let most = SPARE_COUNT_MAX + 1 + 2000 / READS_PER_SPARE;
        assert!((most - 5..=most).contains(&(asked_twice.count() as i64)));
    }
}
