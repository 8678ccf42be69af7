//! Waiting times of work in queues.

use io::Clock;
use metrics::{Gauge, Histogram, Registry};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What waits for a turn at the same time takes its turns in order.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    waiting: Gauge,
    waits: Histogram,
}

#[derive(Debug)]
pub(crate) struct Queues {
    /// Looks at a few rows.
    pub(crate) looks: Queue,
    /// At many.
    pub(crate) walks: Queue,
    /// At rows that no client's call waits for.
    pub(crate) chores: Queue,
}

impl Queues {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let waiting = registry.gauges(
            "levada_queue_waiting",
            "Work on rows that waits for its turn: looks for calls, walks over many rows, chores of the server",
            &["queue"],
        );
        let waits = registry.latencies(
            "levada_queue_wait_duration_seconds",
            "Time that work on rows waited for its turn; what came at once counts as zero",
            &["queue"],
        );
        let queue = |name| Queue { waiting: waiting.with(&[name]), waits: waits.with(&[name]) };
        Self { looks: queue("look"), walks: queue("walk"), chores: queue("chore") }
    }
}

impl Queue {
    /// Waits for a turn. The clock is read only by callers that have to wait.
    pub(crate) async fn turn(&self, turns: &Arc<Semaphore>, clock: &dyn Clock) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(turns).try_acquire_owned() {
            self.waits.observe(Duration::ZERO);
            return Some(turn);
        }
        let came = clock.monotonic();
        let _one = Waiting::begin(&self.waiting);
        let turn = Arc::clone(turns).acquire_owned().await.ok(); // they are never closed
        self.waits.observe(clock.monotonic().saturating_sub(came));
        turn
    }
}

/// A caller that waits may be dropped meanwhile.
struct Waiting<'a>(&'a Gauge);

impl<'a> Waiting<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::{ManualClock, time};
    use types::Millis;

    #[tokio::test]
    async fn waiting_is_counted_until_it_ends_or_is_given_up() {
        let queues = Queues::new(&mut Registry::default());
        let clock = ManualClock::at(Millis(0));
        let turns = Arc::new(Semaphore::new(1));
        let queue = &queues.looks;
        let first = queue.turn(&turns, &clock).await;
        let given_up = time::timeout(Duration::from_millis(1), queue.turn(&turns, &clock)).await;
        assert!(given_up.is_err() && queue.waiting.get() == 0);
        let end = async {
            assert_eq!(queue.waiting.get(), 1);
            clock.advance(Duration::from_secs(2));
            drop(first);
        };
        let (second, ()) = tokio::join!(queue.turn(&turns, &clock), end);
        assert!(second.is_some());
        assert_eq!((queue.waiting.get(), queue.waits.count()), (0, 2));
    }
}
