//! One `fsync` for all who wait for it at the moment.
//!
//! Promise: [`GroupSync::sync`] returns after a sync that *started* after the call, so it covers all the caller wrote
//! before. Those who come while one runs share the next.
//!
//! After a sync that failed, for whatever reason, none succeeds. The kernel may have dropped every page that was dirty
//! at that moment, also of those who wrote while the sync ran, and calls the next sync of the same descriptor a
//! success. A file system that allocates late finds out by then that it is full: "no space left" is no exception.

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
    failed: Option<Failure>,
    #[cfg(test)]
    run_count: u64,
}

#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    reason: String,
}

impl GroupSync {
    pub(crate) fn sync(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.asked += 1;
        let ticket = rounds.asked;
        loop {
            if rounds.done >= ticket {
                return Ok(());
            }
            if let Some(failure) = &rounds.failed {
                return Err(Error::new(failure.kind, format!("an earlier sync failed: {}", failure.reason)));
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
                rounds.failed = Some(Failure { kind: error.kind(), reason: error.to_string() });
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
    use rustix::io::Errno;
    use std::collections::BTreeSet;
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

    /// A file as the kernel has it: a sync that fails drops what was dirty, and the next one has nothing to complain
    /// of.
    #[derive(Default)]
    struct Kernel {
        dirty: BTreeSet<u64>,
        durable: BTreeSet<u64>,
    }

    impl Kernel {
        fn write(&mut self, page: u64) {
            self.dirty.insert(page);
        }

        fn sync(&mut self, fails: Option<Errno>) -> Result<()> {
            let dirty = std::mem::take(&mut self.dirty);
            match fails {
                Some(errno) => Err(errno.into()),
                None => {
                    self.durable.extend(dirty);
                    Ok(())
                }
            }
        }
    }

    /// Who wrote before the failure was reported, and asks for a sync after it, is told as well.
    #[test]
    fn a_sync_that_failed_is_followed_by_no_success() {
        for code in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
            let (group, mut kernel) = (GroupSync::default(), Kernel::default());
            kernel.write(1);
            group.sync(|| kernel.sync(None)).unwrap();
            kernel.write(2);
            let failed = group.sync(|| {
                // Somebody writes while it runs, and will share the next one.
                kernel.write(3);
                kernel.sync(Some(code))
            });
            assert_eq!(Errno::from_io_error(&failed.unwrap_err()), Some(code));
            let next = group.sync(|| kernel.sync(None));
            assert!(next.is_err() || kernel.durable.contains(&3), "{code}: it is nowhere, and was called durable");
            assert_eq!(next.unwrap_err().kind(), Error::from(code).kind());
        }
    }
}
