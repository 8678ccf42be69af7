//! The one lock around the leader's state.
//!
//! Promise: a thread that holds it does not take it again. No task keeps it over an `await`, as a guard cannot be sent
//! to another thread. A thread that holds it takes no other lock and syncs nothing, since every call that needs the
//! leader waits. After a panic that may have left the state half changed, the state is not used any more. Calls and
//! tasks that ask for it end with a panic, no order is sent, and no change is proposed. [`Leadership::keep`] makes a
//! new leader from the rows.
//!
//! [`Leadership::keep`]: crate::leadership::Leadership::keep

use io::OsRandom;
use lead::Leader;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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
    /// A thread panicked while it held the lock, or see [`LeaderLock::break_off`].
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
        self.lock_unless_broken().expect("the leader's memory is broken: it begins anew with the rows")
    }

    /// For callers that must not panic: destructors, and code that only notes something.
    pub(crate) fn lock_unless_broken(&self) -> Option<Leading<'_>> {
        if IS_HELD.get() {
            // It would wait for itself for ever. A panic while another one unwinds would end the process.
            assert!(std::thread::panicking(), "this thread holds the leader's lock already");
            return None;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread that broke it recorded that before the mutex was released.
        if self.is_broken() {
            return None;
        }
        IS_HELD.set(true);
        Some(Leading { state, lock: self, was_panicking: std::thread::panicking() })
    }

    /// It has missed an event, or its tasks ended.
    pub(crate) fn break_off(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.broken.notify_one();
    }

    /// Before this thread begins what may take long.
    pub(crate) fn must_be_free() {
        assert!(!IS_HELD.get(), "all calls would wait: this thread holds the leader's lock");
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

/// The leader's state, exclusively.
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
        let (was_held, is_panicking) = (IS_HELD.replace(false), std::thread::panicking());
        assert!(was_held || is_panicking, "the leader's lock is released by another thread than took it");
        if is_panicking && !self.was_panicking {
            self.lock.break_off();
        }
        if cfg!(debug_assertions) && !is_panicking {
            self.state.release_count = self.state.release_count.wrapping_add(1);
            if self.state.release_count.is_multiple_of(CHECK_EACH) {
                let check = || self.state.leader.check();
                if let Err(failed) = catch_unwind(AssertUnwindSafe(check)) {
                    self.lock.break_off(); // while the mutex is held: nobody sees this memory
                    resume_unwind(failed);
                }
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
            lock.lock().block_leases.renew("a", Duration::from_secs(number));
        }
        assert_eq!(lock.lock().with_random().0.block_leases.len(), 0);
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
        let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
        let leadership = std::sync::Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
        let node = core.with_cluster(|cluster, _| cluster.node(types::NodeId([1; 16])).unwrap().node.clone());
        leadership.heard.registered(node, lead::NodeUsage::default(), String::new(), core.monotonic());
        let change = || core.with_leader(|_, _| panic!("half way"));
        let panicked: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
        assert!(panicked.is_err() && core.is_broken());
        let is_anew = || leadership.core().is_some_and(|now| !std::sync::Arc::ptr_eq(&now, &core) && !now.is_broken());
        for _ in 0..500 {
            if is_anew() {
                break;
            }
            io::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_anew(), "it never began anew");
        let anew = leadership.leading().await.unwrap();
        assert!(anew.leader().surplus.take_ask(types::NodeId([1; 16])), "its catalogue is lost with the memory");
        drop((anew, core, leadership));
        metad.shutdown().await;
    }

    /// Nobody decides by it any more, and nothing that was decided by it is proposed.
    #[tokio::test]
    async fn memory_that_is_half_changed_is_not_seen() {
        let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
        core.break_off();
        assert!(core.leader_unless_broken().is_none());
        let look = || drop(core.leader());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err());
        let open = blocks::Command::OpenContainer { pipeline: types::PipelineId(1) };
        assert!(core.change_blocks(open).await.is_err());
        assert!(core.change_unasked(namespace::Reserve { count: 1 }).await.is_err());
        // Entries of others are applied; this leader does not see them.
        crate::machine::Follower::on_blocks(
            &*core,
            &blocks::Command::Register(blocks::Node::example(9, "/r")),
            &Ok(blocks::Reply::Done),
        );
        crate::machine::Follower::on_effects(&*core, &namespace::Effects::default());
        drop(core);
        metad.shutdown().await;
    }

    /// Without it nothing would be repaired, or deleted. What the leader knows is whole: it stays.
    #[tokio::test]
    async fn a_background_task_that_ends_is_begun_again() {
        let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
        let begun = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = std::sync::Arc::clone(&begun);
        let task = crate::tasks::kept(&core, "panics", move |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move { assert!(number > 0, "on purpose, the first time") }
        });
        while begun.load(Ordering::Relaxed) < 2 {
            io::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!core.is_broken());
        drop((task, core));
        metad.shutdown().await;
    }

    /// It could not wait, and a second panic would end the process.
    #[test]
    fn what_is_dropped_under_the_lock_does_not_wait_for_it() {
        struct Noting<'a>(&'a LeaderLock);
        impl Drop for Noting<'_> {
            fn drop(&mut self) {
                assert!(self.0.lock_unless_broken().is_none());
            }
        }
        let lock = lock();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            let _noting = Noting(&lock);
            panic!("on purpose");
        }));
        assert!(panicked.is_err() && lock.is_broken());
    }

    /// What it had taken out of a queue is nowhere else in memory.
    #[tokio::test]
    async fn a_task_that_panics_with_work_in_hand_begins_the_leader_anew() {
        let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
        let task = crate::tasks::kept(&core, "panics", async |core| {
            let _taken = crate::task_fault::TakenWork(core);
            panic!("on purpose");
        });
        core.broken().await;
        drop((task, core));
        metad.shutdown().await;
    }

    /// What panics each time would do so for ever.
    #[tokio::test]
    async fn a_server_whose_leader_breaks_again_and_again_stops() {
        let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
        let leadership = std::sync::Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
        drop(core);
        let breaking = async {
            loop {
                leadership.core().inspect(|core| core.break_off());
                io::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let why = tokio::select! {
            () = breaking => unreachable!("it never ends"),
            fault = io::time::timeout(Duration::from_secs(60), metad.failed()) => fault.unwrap().reason,
        };
        assert!(why.contains("begin to lead"), "{why}");
        drop(leadership);
        metad.shutdown().await;
    }
}
