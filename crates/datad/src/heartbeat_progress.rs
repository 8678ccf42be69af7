//! How far the metadata server has heard of this node.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct HeartbeatProgress {
    beats: Mutex<Beats>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Beats {
    begun: u64,
    /// The last one that was answered by who leads.
    answered: u64,
}

impl HeartbeatProgress {
    /// A heartbeat begins, which will tell what is so from now on. Its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut beats = self.lock();
        beats.begun += 1;
        beats.begun
    }

    pub(crate) fn answered(&self, number: u64) {
        let mut beats = self.lock();
        beats.answered = beats.answered.max(number);
        self.answered.notify_all();
    }

    /// The last heartbeat that has begun: those after it tell what is so now.
    pub(crate) fn begun(&self) -> u64 {
        self.lock().begun
    }

    /// Waits until one that began after `before` was answered, but no longer than `most`; true if it was. Blocks.
    pub(crate) fn wait(&self, before: u64, most: Duration) -> bool {
        let beats = self.lock();
        let waited = self.answered.wait_timeout_while(beats, most, |beats| beats.answered <= before);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn only_a_later_heartbeat_tells_what_is_so_now() {
        let progress = Arc::new(HeartbeatProgress::default());
        progress.answered(progress.begin());
        assert!(!progress.wait(progress.begun(), Duration::ZERO));
        let (waiting, before) = (Arc::clone(&progress), progress.begun());
        let waiter = io::task::thread("waiter", move || waiting.wait(before, Duration::from_secs(60))).unwrap();
        while !waiter.is_finished() {
            progress.answered(progress.begin());
            std::thread::yield_now();
        }
        assert!(waiter.join().unwrap());
    }
}
