//! Where a simulation takes the place of tokio's runtime, the clock and the kernel's random numbers.
//!
//! Promise: while a [`Simulator`] is installed on a thread, whatever that thread starts, waits for and draws by
//! [`crate::task`], [`crate::time`] and [`crate::random`] is the simulator's: no thread is started, no real clock is
//! read, and nothing is left to chance but what the simulator draws. Where none is installed, which is everywhere but
//! in simulations, everything is tokio's and the kernel's.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// A task that a simulator is given to run.
pub type SimulatedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks in an order of its own, on a clock of its own.
pub trait Simulator {
    /// Since some moment that never changes.
    fn now(&self) -> Duration;

    fn random_u64(&self) -> u64;

    /// Starts a task, and gives it a number that no other has.
    fn spawn(&self, task: SimulatedTask) -> u64;

    /// Whether a task is still there.
    fn is_running(&self, task: u64) -> bool;

    /// Drops a task where it stands, if it is still there. It may be the one that runs.
    fn abort(&self, task: u64);

    /// Wakes a task at a time; the number is for [`Simulator::cancel_timer`].
    fn set_timer(&self, at: Duration, waker: &Waker) -> u64;

    fn cancel_timer(&self, timer: u64);
}

thread_local! {
    static SIMULATOR: RefCell<Option<Rc<dyn Simulator>>> = const { RefCell::new(None) };
}

/// While this lives, the thread is a part of a simulation.
pub struct Installed(());

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Installed")
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        SIMULATOR.with_borrow_mut(|set| *set = None);
    }
}

/// Installs the simulator of this thread, which had none.
pub fn install(simulator: Rc<dyn Simulator>) -> Installed {
    let before = SIMULATOR.with_borrow_mut(|set| set.replace(simulator));
    assert!(before.is_none(), "one simulator at a time");
    Installed(())
}

/// The simulator of this thread.
pub(crate) fn simulator() -> Option<Rc<dyn Simulator>> {
    // A thread that ends has none any more.
    SIMULATOR.try_with(|set| set.borrow().clone()).ok().flatten()
}

pub fn is_simulated() -> bool {
    simulator().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached_threads::CachedThreads;
    use crate::random::random_u64;
    use crate::task;
    use crate::time::{Moment, sleep};
    use std::task::{Context, Poll};

    /// A simulator that keeps what it is given, and never runs it.
    #[derive(Default)]
    struct Idle(RefCell<Vec<String>>);

    impl Simulator for Idle {
        fn now(&self) -> Duration {
            Duration::from_secs(5)
        }

        fn random_u64(&self) -> u64 {
            4
        }

        fn spawn(&self, _task: SimulatedTask) -> u64 {
            self.0.borrow_mut().push("spawn".into());
            11
        }

        fn is_running(&self, task: u64) -> bool {
            task == 11 && !self.0.borrow().iter().any(|done| done == "abort 11")
        }

        fn abort(&self, task: u64) {
            self.0.borrow_mut().push(format!("abort {task}"));
        }

        fn set_timer(&self, at: Duration, _waker: &Waker) -> u64 {
            self.0.borrow_mut().push(format!("set timer at {at:?}"));
            12
        }

        fn cancel_timer(&self, timer: u64) {
            self.0.borrow_mut().push(format!("cancel timer {timer}"));
        }
    }

    #[test]
    fn a_simulator_gets_everything() {
        let idle = Rc::new(Idle::default());
        let installed = install(Rc::<Idle>::clone(&idle));
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = sleep(Duration::from_secs(2));
        assert!(Pin::new(&mut wait).poll(&mut context).is_pending());
        drop(wait);
        let owned = task::spawn_owned("a task", async {});
        assert!(!owned.is_finished());
        owned.abort();
        assert!(owned.is_finished());
        drop(owned);
        assert_eq!((random_u64(), Moment::now().elapsed()), (4, Duration::ZERO));
        let mut work = Box::pin(task::blocking(|| 7));
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(7), "blocking work is done in place");
        CachedThreads::new("cached threads").run(|| panic!("a simulator that runs nothing")).unwrap();
        drop(installed);
        assert_eq!(*idle.0.borrow(), ["set timer at 7s", "cancel timer 12", "spawn", "abort 11", "abort 11", "spawn"]);
        assert!(!is_simulated());
    }
}
