//! How many files one client has open for writing: while there are any, one call now and then renews the leases of all.

use crate::scope::Task;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Leases {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open_count: usize,
    renewing: Option<Task<()>>,
}

/// One open file. The last one to go stops the renewals.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Leases>,
}

impl Leases {
    /// One more file is open. `renew` begins the renewals.
    pub(crate) fn hold(self: &Arc<Self>, renew: impl FnOnce() -> Task<()>) -> Lease {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_count += 1;
        // The task may have ended, with the runtime that it ran on.
        if state.renewing.as_ref().is_none_or(Task::is_finished) {
            state.renewing = Some(renew());
        }
        Lease { leases: Arc::clone(self) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.leases.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_count = state.open_count.checked_sub(1).expect("a file that is closed was open");
        if state.open_count == 0 {
            state.renewing = None;
        }
    }
}
