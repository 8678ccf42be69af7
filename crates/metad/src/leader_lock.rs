//! The one lock around what the leader knows.
//!
//! Promise: a thread that holds it does not take it again, and no task keeps it over an `await`, as a guard cannot be
//! sent to another thread. Whoever holds it takes no other lock, reads no rows and syncs nothing: every call that needs
//! anything of the leader waits meanwhile.

use io::OsRandom;
use lead::Leader;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In debug builds all that must hold is checked when the lock is released, once in so many times.
const CHECK_EACH: u32 = 256;

thread_local! {
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(crate) struct LeaderLock {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    leader: Leader,
    random: OsRandom,
    release_count: u32,
}

impl LeaderLock {
    pub(crate) fn new(leader: Leader) -> Self {
        Self { state: Mutex::new(State { leader, random: OsRandom::new(), release_count: 0 }) }
    }

    pub(crate) fn lock(&self) -> Leading<'_> {
        // It would wait for itself for ever.
        assert!(!IS_HELD.replace(true), "this thread holds the leader's lock already");
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Leading { state }
    }
}

/// What the leader knows, while nobody else looks at it.
pub(crate) struct Leading<'a> {
    state: MutexGuard<'a, State>,
}

impl Leading<'_> {
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
        if cfg!(debug_assertions) && !std::thread::panicking() {
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
}
