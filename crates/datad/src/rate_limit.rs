//! At most so many bytes a second, for work that must not be noticed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may be ahead of the rate: a pause for each packet would cost more than it smooths.
const BURST: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    /// When what was done so far would have been done at the rate.
    due: Mutex<Duration>,
}

/// Work that was ordered may be stopped: a pause is not longer than this before somebody looks whether it was.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(500);

impl RateLimit {
    /// Forgets what was counted: other work begins, perhaps at another rate.
    pub(crate) fn begin(&self) {
        *self.due() = Duration::ZERO;
    }

    /// As [`RateLimit::wait`], as long as `goes_on`.
    pub(crate) fn wait_while(&self, now: Duration, len: u64, len_per_s: u64, goes_on: impl Fn() -> bool) {
        let mut early = self.early(now, len, len_per_s);
        while early > Duration::ZERO && goes_on() {
            let pause = early.min(PAUSE_MAX);
            io::task::sleep(pause);
            early -= pause;
        }
    }

    /// As [`RateLimit::wait_while`], for a task.
    pub(crate) async fn rest_while(&self, now: Duration, len: u64, len_per_s: u64, goes_on: impl Fn() -> bool) {
        let mut early = self.early(now, len, len_per_s);
        while early > Duration::ZERO && goes_on() {
            let pause = early.min(PAUSE_MAX);
            tokio::time::sleep(pause).await;
            early -= pause;
        }
    }

    /// Counts `len` bytes, and sleeps if they came too early. `len_per_s` of 0 means no limit.
    pub(crate) fn wait(&self, now: Duration, len: u64, len_per_s: u64) {
        io::task::sleep(self.early(now, len, len_per_s));
    }

    /// Counts `len` bytes; how long to sleep before they may follow, nothing for a short while.
    fn early(&self, now: Duration, len: u64, len_per_s: u64) -> Duration {
        let early = self.count(now, len, len_per_s);
        if early > BURST { early } else { Duration::ZERO }
    }

    /// How much too early the bytes are.
    fn count(&self, now: Duration, len: u64, len_per_s: u64) -> Duration {
        if len_per_s == 0 {
            return Duration::ZERO;
        }
        let mut due = self.due();
        *due = (*due).max(now) + Duration::from_secs_f64(len as f64 / len_per_s as f64);
        due.saturating_sub(now)
    }

    fn due(&self) -> MutexGuard<'_, Duration> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_rate_wait() {
        let pace = RateLimit::default();
        let second = Duration::from_secs(1);
        assert_eq!(pace.count(second, 100, 1000), Duration::from_millis(100));
        assert_eq!(pace.count(second, 400, 1000), Duration::from_millis(500));
        assert_eq!(pace.count(5 * second, 100, 1000), Duration::from_millis(100), "a pause is not saved up");
        assert_eq!(pace.count(5 * second, 1 << 40, 0), Duration::ZERO);
        assert_eq!(pace.count(5 * second, 10_000, 1), Duration::from_secs_f64(10_000.1));
        pace.wait_while(5 * second, 10_000, 1, || false);
        pace.begin();
        assert_eq!(pace.count(5 * second, 100, 1000), Duration::from_millis(100), "other work is not late");
    }
}
