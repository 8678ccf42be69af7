//! A disk: it takes time, one request after the other, and it can be slow, full, or broken.

use crate::executor::Sim;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskError {
    /// The sync failed. What was not synced before may be gone, whatever a later sync says.
    Sync,
    /// The same, since there is no room for it.
    SyncFull,
    Full,
}

/// When a full disk is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    ByWrites,
    /// The file system allocates late.
    BySyncs,
}

/// A file's entry and its journal, where others are before them.
const REMOVE_TIME: Duration = Duration::from_millis(1);

#[derive(Clone)]
pub(crate) struct Disk(Rc<State>);

struct State {
    sim: Sim,
    free_at: Cell<Duration>,
    /// How many times slower than it should be.
    slowness: Cell<u32>,
    full: Cell<Option<Full>>,
    /// Bytes that it holds.
    capacity: Cell<usize>,
    /// The next sync fails.
    sync_fails: Cell<bool>,
}

impl Disk {
    pub(crate) fn new(sim: Sim, capacity: usize) -> Self {
        Self(Rc::new(State {
            sim,
            free_at: Cell::default(),
            slowness: Cell::new(1),
            full: Cell::default(),
            capacity: Cell::new(capacity),
            sync_fails: Cell::default(),
        }))
    }

    pub(crate) fn set_slowness(&self, times: u32) {
        self.0.slowness.set(times);
    }

    pub(crate) fn set_full(&self, full: Option<Full>) {
        self.0.full.set(full);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity.get()
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.0.capacity.set(capacity);
    }

    /// As far as who asks for its space is told.
    pub(crate) fn is_full(&self) -> bool {
        self.0.full.get() == Some(Full::ByWrites)
    }

    pub(crate) fn fail_next_sync(&self) {
        self.0.sync_fails.set(true);
    }

    /// The machine starts anew: nothing is queued.
    pub(crate) fn restart(&self) {
        self.0.free_at.set(Duration::ZERO);
        self.0.sync_fails.set(false);
    }

    /// Into the page cache: hardly any time, unless the disk is so slow that the cache is full of it.
    pub(crate) async fn write(&self) -> Result<(), DiskError> {
        if self.is_full() {
            return Err(DiskError::Full);
        }
        if self.0.slowness.get() > 1 {
            self.wait(Duration::from_micros(50)).await;
        } else {
            self.0.sim.sleep(Duration::from_micros(5)).await;
        }
        Ok(())
    }

    /// Removes a file: no time, unless the disk is slow.
    pub(crate) async fn remove(&self) {
        if self.0.slowness.get() > 1 {
            self.wait(REMOVE_TIME).await;
        }
    }

    pub(crate) async fn read(&self) {
        self.wait(Duration::from_micros(100)).await;
    }

    /// Returns when what was written before is durable.
    pub(crate) async fn sync(&self) -> Result<(), DiskError> {
        let time = self.0.sim.between(Duration::from_micros(500), Duration::from_millis(4));
        self.wait(time).await;
        if self.0.sync_fails.replace(false) {
            return Err(DiskError::Sync);
        }
        // What it was full of is dropped; the next one fails only for what came since.
        match self.0.full.get() {
            Some(Full::BySyncs) if self.0.sim.one_in(2) => Err(DiskError::SyncFull),
            _ => Ok(()),
        }
    }

    async fn wait(&self, time: Duration) {
        let sim = &self.0.sim;
        let begin = sim.now().max(self.0.free_at.get());
        let end = begin + time * self.0.slowness.get();
        self.0.free_at.set(end);
        sim.sleep_until(end).await;
    }
}
