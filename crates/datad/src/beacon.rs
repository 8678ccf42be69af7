//! Signs of life for threads that cannot give them themselves, as they wait for a disk or for another node.
//!
//! Promise: whoever waits for a thread that is [`busy`](Beacon::busy) hears of this node each `sign_ms`, for as long as
//! [`xfer::write::Above::sign_for_busy`] allows. One task does it for all streams, and sleeps while nothing lasts.

use crate::node::Node;
use crate::write::Above;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Beacon {
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
    beacon: &'a Beacon,
    number: u64,
}

impl Beacon {
    /// Work begins that `above` waits for. `None` if it would not understand signs.
    pub(crate) fn busy(&self, above: &Arc<Above>, now: Duration) -> Option<Busy<'_>> {
        if !above.takes_signs() {
            return None;
        }
        let mut work = self.lock();
        let number = work.next;
        work.next += 1;
        work.under_way.insert(number, (Arc::clone(above), now));
        if std::mem::take(&mut work.asleep) {
            self.begun.notify_one();
        }
        Some(Busy { beacon: self, number })
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.beacon.lock().under_way.remove(&self.number);
    }
}

pub(crate) async fn run(node: Arc<Node>) {
    let limits = node.config.limits.of_writes();
    loop {
        let idle = {
            let mut work = node.beacon.lock();
            work.asleep = work.under_way.is_empty();
            work.asleep
        };
        if idle {
            node.beacon.begun.notified().await;
        }
        tokio::time::sleep(limits.sign_each).await;
        let now = node.now();
        for (above, since) in node.beacon.lock().under_way.values() {
            above.sign_for_busy(*since, now, &limits);
        }
    }
}
