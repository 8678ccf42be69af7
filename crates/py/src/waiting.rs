//! Which threads are inside of a call, so that Python does not end below them.
//!
//! A thread that wants the GIL while Python ends is killed by it (CPython up to 3.13). Tools read files on threads of
//! their own, which have frames of C++ on their stacks, and whose end is the end of the process. So the package waits
//! at exit until nobody is in here (`levada/ending.py`).

use pyo3::pyfunction;
use std::sync::atomic::{AtomicU64, Ordering};

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// While it is there, a thread waits for a call. It is dropped with the GIL held.
#[derive(Debug)]
pub(crate) struct Waiting(());

impl Waiting {
    pub(crate) fn begin() -> Self {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many waits for calls were begun in this process, and how many of them have ended. For the package itself.
#[pyfunction]
pub(crate) fn waits() -> (u64, u64) {
    // The other order could count one that has ended and had not begun.
    let ended = ENDED.load(Ordering::Relaxed);
    (BEGUN.load(Ordering::Relaxed), ended)
}
