//! One `fsync` for all who wait for it at the moment.
//!
//! Promise: [`GroupSync::sync`] returns after a sync that *started* after the call, so it covers all the caller wrote
//! before. Those who come while one runs share the next.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    rounds: Mutex<Rounds>,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    asked: u64,
    done: u64,
    running: bool,
    /// After a failed fsync the kernel may have dropped the pages and call the next one a success. So all who shared the
    /// failed one get its error; and unless the disk was only full, everyone later does.
    failed: Option<Failure>,
    #[cfg(test)]
    run_count: u64,
}

#[derive(Debug)]
struct Failure {
    covered: u64,
    full: bool,
    kind: ErrorKind,
    reason: String,
}

impl GroupSync {
    pub(crate) fn sync(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.asked += 1;
        let ticket = rounds.asked;
        loop {
            if let Some(failure) = &rounds.failed
                && (ticket <= failure.covered || !failure.full)
            {
                return Err(Error::new(failure.kind, format!("an earlier sync failed: {}", failure.reason)));
            }
            if rounds.done >= ticket {
                return Ok(());
            }
            if !rounds.running {
                break;
            }
            rounds = self.finished.wait(rounds).unwrap_or_else(PoisonError::into_inner);
        }
        rounds.running = true;
        let covered = rounds.asked;
        drop(rounds);
        let outcome = run();
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.running = false;
        match &outcome {
            Ok(()) => rounds.done = covered,
            Err(error) => {
                let (kind, full, reason) = (error.kind(), crate::error::is_full(error), error.to_string());
                rounds.failed = Some(Failure { covered, full, kind, reason });
            }
        }
        #[cfg(test)]
        {
            rounds.run_count += 1;
        }
        self.finished.notify_all();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Twenty writers each write, then sync: each must find its write covered, in far fewer syncs than writers.
    #[test]
    fn those_who_wait_share_a_sync_that_began_after_they_wrote() {
        let group = Arc::new(GroupSync::default());
        let written = Arc::new(AtomicU64::new(0));
        let synced = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..20)
            .map(|number| {
                let (group, written, synced) = (Arc::clone(&group), Arc::clone(&written), Arc::clone(&synced));
                io::task::thread("writer", move || {
                    written.fetch_or(1 << number, Ordering::SeqCst);
                    let (_wait, wake) = std::sync::mpsc::channel::<()>();
                    group
                        .sync(|| {
                            let covered = written.load(Ordering::SeqCst);
                            let _timed_out = wake.recv_timeout(std::time::Duration::from_millis(20));
                            synced.fetch_or(covered, Ordering::SeqCst);
                            Ok(())
                        })
                        .unwrap();
                    assert_ne!(synced.load(Ordering::SeqCst) & 1 << number, 0, "writer {number} was told too early");
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let run_count = group.rounds.lock().unwrap().run_count;
        assert!(run_count < 10, "{run_count} syncs");
    }

    #[test]
    fn after_a_failure_nothing_is_promised_any_more() {
        let group = GroupSync::default();
        assert!(group.sync(|| Ok(())).is_ok());
        assert!(group.sync(|| Err(ErrorKind::StorageFull.into())).is_err());
        assert!(group.sync(|| Ok(())).is_ok(), "there is room again");
        assert!(group.sync(|| Err(ErrorKind::Other.into())).is_err());
        assert!(group.sync(|| Ok(())).is_err());
    }
}
