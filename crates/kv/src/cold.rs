//! Pages that are not in memory, for tests and measurements: each takes its time when it is first read, as on a cold
//! disk.
//!
//! The file is mapped, so a page that has to come from the disk holds up the thread that touches it, wherever that is.
//! A machine that runs tests has all in memory. Here the first visit to a page waits instead; the next ones find it in
//! memory.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PAGE_LEN: usize = 4096;

/// Of all stores of this process; 0: none is cold.
static WAIT_MICROS: AtomicU64 = AtomicU64::new(0);
static WARM: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

/// Every page is cold from now on, and takes `wait` to come. Zero ends it.
pub fn begin(wait: Duration) {
    *WARM.lock().unwrap_or_else(PoisonError::into_inner) = Some(HashSet::new());
    WAIT_MICROS.store(wait.as_micros() as u64, Ordering::SeqCst);
}

thread_local! {
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has waited here.
pub fn waits() -> u64 {
    WAITS.get()
}

/// A reader comes to a row. `stored` lies in the map.
pub(crate) fn visit(stored: &[u8]) {
    let wait = WAIT_MICROS.load(Ordering::Relaxed);
    if wait == 0 {
        return;
    }
    let page = stored.as_ptr().addr() / PAGE_LEN;
    let mut warm = WARM.lock().unwrap_or_else(PoisonError::into_inner);
    if warm.get_or_insert_default().insert(page) {
        drop(warm);
        WAITS.set(WAITS.get() + 1);
        io::task::sleep(Duration::from_micros(wait));
    }
}
