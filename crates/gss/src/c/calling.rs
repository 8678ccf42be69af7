//! Calls that are under way, and the end of the process.
//!
//! As a process ends, the library destroys its locks, whatever other threads are doing: one that still releases a
//! ticket would abort the process in place of its exit code. So the end waits for calls, and no other thread begins
//! one any more. The thread that ends the process may still call: handlers that run later may release what they have.

use super::functions::Functions;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// Shared by all calls; the end of the process takes it alone, for good.
static CALLS: RwLock<()> = RwLock::new(());
/// Whether it is about to: calls that follow on each other would never leave it a gap.
static ENDING: AtomicBool = AtomicBool::new(false);

/// How often the end of the process looks whether all calls are over, and how long it rests between: a call may wait
/// for a KDC that does not answer.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// The library's functions for as long as this is held. Of any other thread than the one that ends the process, a call
/// that would begin then never returns.
pub(super) struct Calling<'a> {
    functions: &'a Functions,
    _underway: Option<RwLockReadGuard<'static, ()>>,
}

thread_local! {
    /// Whether this thread ends the process.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

impl<'a> Calling<'a> {
    pub(super) fn begin(functions: &'a Functions) -> Self {
        if ENDS.get() {
            return Self { functions, _underway: None };
        }
        while ENDING.load(Ordering::SeqCst) {
            std::thread::park();
        }
        // Nothing is behind the lock that a panic could have left half done.
        Self { functions, _underway: Some(CALLS.read().unwrap_or_else(PoisonError::into_inner)) }
    }
}

impl Deref for Calling<'_> {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        self.functions
    }
}

/// To be called once the library is loaded: what is registered last is run first.
#[expect(unsafe_code, reason = "a call of the C library")]
pub(super) fn wait_at_exit() {
    // SAFETY: the handler is a function of this program without state of its own, and cannot unwind.
    let refused = unsafe { libc::atexit(wait_for_calls) };
    if refused != 0 {
        tracing::warn!("there is no memory to wait for Kerberos at the end of this process");
    }
}

extern "C" fn wait_for_calls() {
    ENDS.set(true);
    ENDING.store(true, Ordering::SeqCst);
    for _ in 0..LOOKS {
        if let Ok(alone) = CALLS.try_write() {
            std::mem::forget(alone);
            return;
        }
        io::task::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Initiator, Tickets};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    const ENDING: &str = "LEVADA_ENDS_UNDER_CALLS";
    const CODE: i32 = 7;
    const PROCESSES: usize = 40;

    /// What its exit code is does not depend on who looks for a ticket at that moment.
    #[test]
    fn a_process_ends_under_calls_of_its_threads() {
        if std::env::var_os(ENDING).is_some() {
            return end_under_calls();
        }
        let this = std::env::current_exe().expect("this program");
        for _ in 0..PROCESSES {
            let mut command = Command::new(&this);
            command.args(["--exact", "c::calling::tests::a_process_ends_under_calls_of_its_threads", "--nocapture"]);
            let ended = command.env(ENDING, "").stdout(Stdio::null()).output().expect("it runs");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!((ended.status.code(), ended.status.signal()), (Some(CODE), None), "{said}");
        }
    }

    /// The thread that ends the process may still call: another handler, which was registered before, runs after ours.
    extern "C" fn log_in() {
        assert!(initiator().login().is_err(), "there is no ticket");
    }

    fn initiator() -> Initiator {
        Initiator::new(Tickets::Cache("MEMORY:none".into()), None).expect("the library")
    }

    #[expect(unsafe_code, reason = "a call of the C library")]
    fn end_under_calls() {
        // SAFETY: the handler has no state of its own; where it panics, the process ends by a signal.
        assert_eq!(unsafe { libc::atexit(log_in) }, 0);
        let initiator = initiator();
        for _ in 0..4 {
            let initiator = initiator.clone();
            let calling = move || {
                loop {
                    assert!(initiator.login().is_err(), "there is no ticket");
                }
            };
            io::task::thread("calling", calling).expect("a thread");
        }
        assert!(initiator.login().is_err(), "there is no ticket");
        std::process::exit(CODE);
    }
}
