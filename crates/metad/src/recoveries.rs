//! Recoveries of files under way.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, watch};
use types::{FileId, Generation};

/// A client that asked for a recovery is kept waiting so long, in the hope of a yes.
const ENDED_WAIT: Duration = Duration::from_millis(800);
/// Recoveries that have replicas read at a time. Each may have a whole block to read on all its nodes.
const READING_COUNT_MAX: usize = 16;
/// Recoveries under way. One that waits for its nodes costs little; all of them together ask every node again and
/// again.
const RUNNING_COUNT_MAX: usize = 10_000;

/// Recoveries under way, by file.
#[derive(Debug)]
pub(crate) struct Recoveries {
    running: Mutex<BTreeMap<FileId, Running>>,
    /// Whose turn it is to have replicas read.
    reading: Semaphore,
}

impl Default for Recoveries {
    fn default() -> Self {
        Self { running: Mutex::default(), reading: Semaphore::new(READING_COUNT_MAX) }
    }
}

#[derive(Debug)]
struct Running {
    generation: Generation,
    task: io::task::Task<()>,
    /// Becomes true when the file is closed; its sender goes away when the recovery ends in any way.
    closed: watch::Receiver<bool>,
}

impl Recoveries {
    /// Begins one by `spawn`, unless one of this generation or a later one runs; it takes the place of an earlier one.
    /// Where there is no room, the next look at files without a writer begins it.
    pub(crate) fn begin(
        &self,
        file: FileId,
        generation: Generation,
        spawn: impl FnOnce(watch::Sender<bool>) -> io::task::Task<()>,
    ) {
        let mut running = self.lock();
        if running.get(&file).is_some_and(|running| running.generation >= generation) {
            return;
        }
        if running.len() >= RUNNING_COUNT_MAX && !running.contains_key(&file) {
            return;
        }
        let (sender, closed) = watch::channel(false);
        // Its end waits for this lock.
        let task = spawn(sender);
        if let Some(overtaken) = running.insert(file, Running { generation, task, closed }) {
            assert!(overtaken.generation < generation, "{file} is recovered under {} already", overtaken.generation);
            overtaken.task.abort();
        }
        assert!(running.len() <= RUNNING_COUNT_MAX, "{} recoveries", running.len());
    }

    /// The one of this generation has ended.
    pub(crate) fn end(&self, file: FileId, generation: Generation) {
        let mut running = self.lock();
        if running.get(&file).is_some_and(|running| running.generation == generation) {
            running.remove(&file);
        }
    }

    /// To have replicas read, as long as it is held.
    pub(crate) async fn turn_to_read(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.reading.acquire().await
    }

    pub(crate) fn is_running(&self, file: FileId) -> bool {
        self.lock().contains_key(&file)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.count() < RUNNING_COUNT_MAX
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Waits a moment for the recovery of `file`. True: it is closed now.
    pub(crate) async fn ended(&self, file: FileId) -> bool {
        let closed = self.lock().get(&file).map(|running| running.closed.clone());
        let Some(mut closed) = closed else { return false };
        matches!(io::time::timeout(ENDED_WAIT, closed.wait_for(|closed| *closed)).await, Ok(Ok(_)))
    }

    pub(crate) fn stop(&self) {
        let running = std::mem::take(&mut *self.lock());
        for running in running.into_values() {
            running.task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    /// A client may ask for as many as it makes files, and say that each has bytes which no node shows.
    #[tokio::test]
    async fn recoveries_are_bounded_however_they_are_asked_for() {
        let recoveries = Recoveries::default();
        let begin = |file, generation| {
            let mut begun = false;
            recoveries.begin(InodeId(file), Generation(generation), |_| {
                begun = true;
                io::task::spawn("recovery", std::future::pending())
            });
            begun
        };
        let count = RUNNING_COUNT_MAX as u64;
        assert!((0..count).all(|file| begin(file, 1)));
        assert!(!begin(count, 1) && !recoveries.has_room());
        assert!(begin(7, 2), "it takes the place of an earlier one");
        recoveries.end(InodeId(8), Generation(1));
        assert!(begin(count, 1));
        assert_eq!(recoveries.count(), RUNNING_COUNT_MAX);
        recoveries.stop();
    }
}
