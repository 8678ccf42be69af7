//! Where rows are read: by a call on the thread that it came on, as long as what is read is in memory and is little.
//!
//! The store's file is mapped, so a page that has to come from a disk holds up the thread that touches it, and on the
//! runtime's threads the timers of Raft and all other calls with it. Nothing tells beforehand whether a page is in
//! memory; but a thread can be asked how often it has waited for one. So reads begin on the thread of the call, at a
//! fifth of what two changes of threads would cost; one that waited for a disk sends those that follow to threads
//! that may wait, for a while. Entries of the log are applied by the same rule.
//!
//! Promise: while pages come from a disk, one read in [`COLD_FOR`] at most waits for them on a thread of the runtime,
//! and none visits more than [`VISITED_COUNT_MAX`] rows there.

use io::stage::Moment;
use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::rows::{Row, Rows, RowsError, Table, Visit};

/// How long reads keep away from the runtime's threads after one had to wait. A guess: a disk with a page in 10 ms
/// takes a hundredth of a thread's time then.
const COLD_FOR: Duration = Duration::from_secs(1);
/// A guess: some tens of microseconds, which is about what going elsewhere costs.
const VISITED_COUNT_MAX: u32 = 200;

#[derive(Debug, Default)]
pub(crate) struct Residency {
    /// When work last had to wait for a page.
    waited: Mutex<Option<Moment>>,
}

impl Residency {
    /// Whether work had to wait lately.
    pub(crate) fn is_cold(&self) -> bool {
        let waited = *self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        waited.is_some_and(|waited| waited.elapsed() < COLD_FOR)
    }

    /// Takes note if `work`, which is done here, has to wait.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = page_waits();
        let done = work();
        if page_waits() != before {
            *self.waited.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now());
        }
        done
    }

    /// Reads rows on this thread. `None`: it is to be done on a thread that may wait, either because others had to wait
    /// lately or because there is much to read; then what `run` did here counts for nothing.
    pub(crate) fn read_here<T>(
        &self,
        store: &kv::Store,
        run: impl FnOnce(&dyn Rows) -> Result<T, RowsError>,
    ) -> Option<Result<T, RowsError>> {
        if self.is_cold() {
            return None;
        }
        self.watch(|| {
            let rows = Brief { rows: store.view(), left: Cell::new(VISITED_COUNT_MAX), is_over: Cell::new(false) };
            let found = run(&rows);
            (!rows.is_over.get()).then_some(found)
        })
    }
}

/// How often this thread has waited for a page.
fn page_waits() -> u64 {
    if io::stage::is_played() {
        return 0; // a simulation must not depend on what its machine has in memory
    }
    host::process::page_waits() + kv::cold::waits()
}

/// Rows of which only so many may be visited.
struct Brief<R> {
    rows: R,
    left: Cell<u32>,
    is_over: Cell<bool>,
}

impl<R> Brief<R> {
    /// One more row.
    fn take(&self) -> Result<(), RowsError> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.is_over.set(true);
                Err(RowsError { op: "reading a few rows", reason: format!("more than {VISITED_COUNT_MAX}") })
            }
        }
    }
}

impl<R: Rows> Rows for Brief<R> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.take()?;
        self.rows.get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let mut over = Ok(());
        self.rows.scan(table, from, &mut |key, value| {
            over = self.take();
            if over.is_ok() { visit(key, value) } else { ControlFlow::Break(()) }
        })?;
        over
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.take()?;
        self.rows.last_at_most(table, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::rows::RowsMut;

    fn store(dir: &std::path::Path) -> kv::Store {
        let store = kv::Store::open(dir, kv::Options::default()).unwrap();
        let mut change = store.change();
        for number in 0..2 * VISITED_COUNT_MAX {
            change.put(Table(1), &number.to_be_bytes(), vec![1; 9]);
        }
        change.commit();
        store.flush().unwrap();
        store
    }

    fn count(rows: &dyn Rows, max: u32) -> Result<u32, RowsError> {
        let mut count = 0;
        rows.scan(Table(1), Bound::Unbounded, &mut |_, _| {
            count += 1;
            if count < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(count)
    }

    /// Even where the reader takes the error for something else.
    #[test]
    fn what_is_long_is_not_read_here() {
        let dir = tempfile::tempdir().unwrap();
        let (store, here) = (store(dir.path()), Residency::default());
        let few = here.read_here(&store, |rows| count(rows, VISITED_COUNT_MAX));
        assert_eq!(few.unwrap().unwrap(), VISITED_COUNT_MAX);
        assert!(here.read_here(&store, |rows| count(rows, VISITED_COUNT_MAX + 1)).is_none());
        assert!(here.read_here(&store, |rows| Ok(count(rows, VISITED_COUNT_MAX + 1).unwrap_or(0))).is_none());
    }

    /// A page that comes from a disk sends what follows elsewhere.
    #[test]
    fn who_waits_sends_the_others_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (store, here) = (store(dir.path()), Residency::default());
        let read = |rows: &dyn Rows| rows.get(Table(1), &7u32.to_be_bytes());
        kv::cold::begin(Duration::from_millis(1));
        let found = here.read_here(&store, read);
        kv::cold::begin(Duration::ZERO);
        assert!(found.unwrap().unwrap().is_some());
        assert!(here.is_cold());
        assert!(here.read_here(&store, read).is_none());
        assert!(Residency::default().read_here(&store, read).is_some());
    }
}
