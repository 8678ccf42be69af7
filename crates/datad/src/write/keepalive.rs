//! Keepalives for threads that cannot send them themselves, as they wait for a disk or for another node.
//!
//! Promise: whoever waits for a thread that is [`busy`](Keepalive::busy) hears of this node each
//! `keepalive_interval_ms`, for as long as [`xfer::write::Above::keepalive_while_busy`] allows. One task does it for
//! all streams, and sleeps while nothing lasts.

use super::above::Above;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use xfer::write::Limits;

#[derive(Debug, Default)]
pub(crate) struct Keepalive {
    work: Mutex<Work>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct Work {
    next: u64,
    /// Who waits, and since when.
    under_way: HashMap<u64, (Arc<Above>, Duration)>,
    /// The task sleeps until it is notified.
    asleep: bool,
}

/// Work under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy<'a> {
    keepalive: &'a Keepalive,
    number: u64,
}

impl Keepalive {
    /// Work begins that `above` waits for. `None` if it would not understand keepalives.
    pub(crate) fn busy(&self, above: &Arc<Above>, now: Duration) -> Option<Busy<'_>> {
        if !above.takes_keepalives() {
            return None;
        }
        let mut work = self.lock();
        let number = work.next;
        work.next += 1;
        work.under_way.insert(number, (Arc::clone(above), now));
        if std::mem::take(&mut work.asleep) {
            self.begun.notify_one();
        }
        Some(Busy { keepalive: self, number })
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.keepalive.lock().under_way.remove(&self.number);
    }
}

/// Sends keepalives until the task is dropped.
pub(super) async fn run(keepalive: &Keepalive, limits: Limits, now: impl Fn() -> Duration) {
    loop {
        let idle = {
            let mut work = keepalive.lock();
            work.asleep = work.under_way.is_empty();
            work.asleep
        };
        if idle {
            keepalive.begun.notified().await;
        }
        tokio::time::sleep(limits.keepalive_interval).await;
        let now = now();
        for (above, since) in keepalive.lock().under_way.values() {
            above.keepalive_while_busy(*since, now, &limits);
        }
    }
}
