//! Time as an argument: the machine's, or one that a test turns by hand.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use types::Millis;

pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Wall-clock time, for what people and other machines read. It may step back.
    fn now(&self) -> Millis;

    /// Time since this clock was made, for time limits and rates. It never steps back, and stands still while the
    /// machine sleeps: nobody is taken for gone who was not listened to. Promises to others are counted by
    /// [`crate::time::Moment`].
    fn monotonic(&self) -> Duration;
}

/// When the wall clock of a simulation begins, in milliseconds since 1970.
const SIMULATION_STARTS_MS: u64 = 1_800_000_000_000;

/// The machine's clock, or that of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now(&self) -> Millis {
        if let Some(simulator) = crate::simulated::simulator() {
            return Millis(SIMULATION_STARTS_MS + simulator.now().as_millis() as u64);
        }
        // A clock set before 1970 is as good as one that stands at 1970.
        Millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
    }

    fn monotonic(&self) -> Duration {
        crate::simulated::simulator().map_or_else(|| self.start.elapsed(), |simulator| simulator.now())
    }
}

/// Time since the machine was started, that it slept in included. A machine that is suspended, or stunned by its
/// hypervisor, knows by it that what it was promised may be over.
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    times: Mutex<(Millis, Duration)>,
}

impl ManualClock {
    pub fn at(now: Millis) -> Self {
        Self { times: Mutex::new((now, Duration::ZERO)) }
    }

    /// Both times go on by `step`.
    pub fn advance(&self, step: Duration) {
        let mut times = lock(&self.times);
        *times = (times.0.plus(step), times.1 + step);
    }

    /// An administrator sets the wall clock; monotonic time does not notice.
    pub fn set_wall(&self, now: Millis) {
        lock(&self.times).0 = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        lock(&self.times).0
    }

    fn monotonic(&self) -> Duration {
        lock(&self.times).1
    }
}

/// Two plain numbers are never half written, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_goes_forward() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
        assert!(clock.now() > Millis(1_700_000_000_000), "the machine's clock stands before 2023");
    }

    #[test]
    fn a_manual_clock_moves_on_command_only() {
        let clock = ManualClock::at(Millis(5000));
        assert_eq!((clock.now(), clock.monotonic()), (Millis(5000), Duration::ZERO));
        clock.advance(Duration::from_secs(2));
        clock.set_wall(Millis(10));
        assert_eq!((clock.now(), clock.monotonic()), (Millis(10), Duration::from_secs(2)));
    }
}
