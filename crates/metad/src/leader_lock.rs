//! The one lock around what the leader knows.
//!
//! Promise: a thread that holds it does not take it again, and no task keeps it over an `await`, as a guard cannot be
//! sent to another thread. Whoever holds it takes no other lock and syncs nothing: every call that needs anything of
//! the leader waits meanwhile. When a panic has left it half changed, no order to delete leaves any more, and
//! [`Seat::keep`] begins anew with the rows.
//!
//! [`Seat::keep`]: crate::seat::Seat::keep

use io::OsRandom;
use lead::Leader;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// In debug builds all that must hold is checked when the lock is released, once in so many times.
const CHECK_EACH: u32 = 256;

thread_local! {
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(crate) struct LeaderLock {
    state: Mutex<State>,
    /// A thread panicked while it held the lock.
    is_broken: AtomicBool,
    broken: Notify,
}

#[derive(Debug)]
struct State {
    leader: Leader,
    random: OsRandom,
    release_count: u32,
}

impl LeaderLock {
    pub(crate) fn new(leader: Leader) -> Self {
        let state = State { leader, random: OsRandom::new(), release_count: 0 };
        Self { state: Mutex::new(state), is_broken: AtomicBool::new(false), broken: Notify::new() }
    }

    pub(crate) fn lock(&self) -> Leading<'_> {
        // It would wait for itself for ever.
        assert!(!IS_HELD.replace(true), "this thread holds the leader's lock already");
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Leading { state, lock: self, was_panicking: std::thread::panicking() }
    }

    /// What the leader knows may be half changed.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Returns when it is broken. One waits for it.
    pub(crate) async fn broken(&self) {
        while !self.is_broken() {
            self.broken.notified().await;
        }
    }
}

/// What the leader knows, while nobody else looks at it.
pub(crate) struct Leading<'a> {
    state: MutexGuard<'a, State>,
    lock: &'a LeaderLock,
    /// It was taken while its thread unwound, by what is dropped then.
    was_panicking: bool,
}

impl Leading<'_> {
    /// How often the lock was released before, modulo 2^32.
    #[cfg(test)]
    pub(crate) fn release_count(&self) -> u32 {
        self.state.release_count
    }

    /// With chance beside it.
    pub(crate) fn with_random(&mut self) -> (&mut Leader, &mut OsRandom) {
        let State { leader, random, .. } = &mut *self.state;
        (leader, random)
    }
}

impl Deref for Leading<'_> {
    type Target = Leader;

    fn deref(&self) -> &Leader {
        &self.state.leader
    }
}

impl DerefMut for Leading<'_> {
    fn deref_mut(&mut self) -> &mut Leader {
        &mut self.state.leader
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        IS_HELD.set(false);
        let is_panicking = std::thread::panicking();
        if is_panicking && !self.was_panicking {
            self.lock.is_broken.store(true, Ordering::Release);
            self.lock.broken.notify_one();
        }
        if cfg!(debug_assertions) && !is_panicking {
            self.state.release_count = self.state.release_count.wrapping_add(1);
            if self.state.release_count.is_multiple_of(CHECK_EACH) {
                self.state.leader.check();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lead::Cluster;
    use std::time::Duration;
    use types::Millis;
    use types::rows::MemoryRows;

    fn lock() -> LeaderLock {
        let rows = MemoryRows::default();
        let cluster = Cluster::load(&rows, 1).unwrap();
        LeaderLock::new(Leader::load(cluster, &rows, Millis(1), Duration::ZERO, Duration::from_secs(60)).unwrap())
    }

    #[test]
    fn a_thread_takes_it_again_once_it_has_let_go() {
        let lock = lock();
        for number in 1..=1000 {
            lock.lock().leased.renew("a", Duration::from_secs(number));
        }
        assert_eq!(lock.lock().with_random().0.leased.len(), 0);
    }

    #[test]
    #[should_panic(expected = "this thread holds the leader's lock already")]
    fn a_thread_that_holds_it_does_not_wait_for_itself() {
        let lock = lock();
        let _held = lock.lock();
        let _again = lock.lock();
    }

    /// Its assertions and those of others may fail half way through a change.
    #[tokio::test]
    async fn a_leader_whose_memory_is_half_changed_begins_anew() {
        let (_dir, metad, core) = crate::sealing::tests::with_node().await;
        let change = || core.with_leader(|_, _| panic!("half way"));
        let panicked: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
        assert!(panicked.is_err() && core.is_broken());
        let seat = std::sync::Arc::clone(&metad.running().as_ref().unwrap().server.seat);
        let is_anew = || seat.core().is_some_and(|now| !std::sync::Arc::ptr_eq(&now, &core) && !now.is_broken());
        for _ in 0..500 {
            if is_anew() {
                break;
            }
            io::stage::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_anew(), "it never began anew");
        assert!(seat.leading().await.is_ok());
        drop((core, seat));
        metad.shutdown().await;
    }
}
