//! Residency of rows in memory: a call reads on its own thread as long as the rows are in memory and few.
//!
//! The store's file is mapped, so a page that must come from a disk blocks the thread that touches it. On the runtime's
//! threads that delays Raft's timers and all other calls. Whether a page is in memory cannot be known beforehand, but a
//! thread can be asked how often it waited for one. So reads begin on the thread of the call, at a fifth of the cost of
//! two changes of threads. After a read that waited for a disk, reads use threads that may wait, for a while. Entries
//! of the log are applied by the same rule.
//!
//! Promise: a read that waits for a page on a thread of the runtime moves to another thread after [`LOOK_EACH`] rows.
//! So do all later reads, until no read had to wait for [`COLD_FOR`], on any thread. A read here visits at most
//! [`VISITED_COUNT_MAX`] rows. Rows deleted since the last flush are skipped and not counted.

use io::time::Moment;
use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::rows::{Row, Rows, RowsError, Table, Visit};

/// How long reads keep away from the runtime's threads after one had to wait. A guess: a disk with a page in 10 ms
/// takes a hundredth of a thread's time then.
const COLD_FOR: Duration = Duration::from_secs(1);
/// A guess: some tens of microseconds, which is about what going elsewhere costs.
const VISITED_COUNT_MAX: u32 = 200;
/// Of so many entries of the log one is watched: to ask what a thread waited for costs a twentieth of an entry, and
/// pages that are not in memory come in numbers.
const WATCH_EACH: u32 = 8;
/// Rows between two looks at whether the thread had to wait.
const LOOK_EACH: u32 = 4;
/// A longer wait sends reads elsewhere for a while, whatever the reason. A guess: a hundredth of the time in which a
/// leader must be heard.
const LONG: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct Residency {
    /// When work last had to wait for a page.
    waited: Mutex<Option<Moment>>,
    /// Counts [`Residency::watch_some`].
    unwatched: AtomicU32,
}

impl Residency {
    /// Whether work had to wait lately.
    pub(crate) fn is_cold(&self) -> bool {
        let waited = *self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        waited.is_some_and(|waited| waited.elapsed() < COLD_FOR)
    }

    /// Takes note if `work` has to wait, or takes long.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        self.watch_from(page_waits(), work)
    }

    /// As [`Residency::watch`], for a caller that has just read how often this thread has waited.
    fn watch_from<T>(&self, waits: u64, work: impl FnOnce() -> T) -> T {
        let began = Moment::now();
        let done = work();
        if page_waits() != waits || began.elapsed() > LONG {
            self.note_wait();
        }
        done
    }

    /// As [`Residency::watch`], of work of which there is so much, and each so little, that only some is looked at.
    pub(crate) fn watch_some<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.unwatched.fetch_add(1, Ordering::Relaxed) % WATCH_EACH {
            0 => self.watch(work),
            _ => work(),
        }
    }

    fn note_wait(&self) {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now());
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
        let waits = page_waits();
        self.watch_from(waits, || {
            let rows = Brief {
                rows: store.view(),
                left: Cell::new(VISITED_COUNT_MAX),
                is_over: Cell::new(false),
                waits,
                residency: self,
            };
            let found = run(&rows);
            (!rows.is_over.get()).then_some(found)
        })
    }
}

/// How often this thread has waited for a page.
fn page_waits() -> u64 {
    if io::simulated::is_simulated() {
        return 0; // a simulation must not depend on what its machine has in memory
    }
    host::process::page_waits() + kv::cold::waits()
}

/// Rows of which only so many may be visited.
struct Brief<'r, R> {
    rows: R,
    left: Cell<u32>,
    is_over: Cell<bool>,
    /// Of this thread when it began.
    waits: u64,
    residency: &'r Residency,
}

impl<R> Brief<'_, R> {
    /// One more row.
    fn take(&self) -> Result<(), RowsError> {
        let left = self.left.get().saturating_sub(1);
        let has_waited = left.is_multiple_of(LOOK_EACH) && page_waits() != self.waits;
        if has_waited {
            self.residency.note_wait(); // at once, for those who begin now
        }
        if left == 0 || has_waited {
            self.is_over.set(true);
            return Err(RowsError { op: "reading a few rows", reason: "they are many, or on a disk".into() });
        }
        self.left.set(left);
        Ok(())
    }
}

impl<R: Rows> Rows for Brief<'_, R> {
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
        let store = store(dir.path());
        // The first may wait for a page of the program itself.
        let mut reads = (0..3).map(|_| Residency::default());
        let few = reads.find_map(|here| here.read_here(&store, |rows| count(rows, VISITED_COUNT_MAX - 1)));
        assert_eq!(few.unwrap().unwrap(), VISITED_COUNT_MAX - 1);
        let here = Residency::default();
        assert!(here.read_here(&store, |rows| count(rows, VISITED_COUNT_MAX)).is_none());
        assert!(here.read_here(&store, |rows| Ok(count(rows, VISITED_COUNT_MAX).unwrap_or(0))).is_none());
    }

    /// A page that comes from a disk sends what follows elsewhere.
    #[test]
    fn who_waits_sends_the_others_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (store, here) = (store(dir.path()), Residency::default());
        let read = |rows: &dyn Rows| rows.get(Table(1), &7u32.to_be_bytes());
        kv::cold::begin(Duration::from_millis(1));
        let found = here.read_here(&store, read);
        let (long, before) = (Residency::default(), kv::cold::waits());
        let not_found = long.read_here(&store, |rows| count(rows, VISITED_COUNT_MAX - 1));
        let waits = kv::cold::waits() - before;
        kv::cold::begin(Duration::ZERO);
        assert!(found.unwrap().unwrap().is_some());
        assert!(not_found.is_none() && long.is_cold(), "a long read goes on elsewhere");
        assert!((1..=u64::from(LOOK_EACH)).contains(&waits), "{waits} waits");
        assert!(here.is_cold());
        assert!(here.read_here(&store, read).is_none());
        assert!(Residency::default().read_here(&store, read).is_some());
    }
}
