//! Health of a volume: whether it accepts writes, and if not, why.
//!
//! ```text
//!           sync failed for lack of room            any other failed sync, an error of the disk or of the index
//!   sound ────────────────────────────▶ full ────────────────────────────────▶ failed
//!     └────────────────────────────────────────────────────────────────────────▲
//! ```
//!
//! Promise: after a failed sync the volume takes no more writes, whatever the error says. What was written before it
//! may be gone, and the next sync of the same file may succeed all the same. Which operation failed is read from
//! [`DiskOp`] and the error's number or kind, never from a text. There is no way back but a restart.

use crate::errno;
use crate::error::{DiskOp, ReplicaError, Result, is_full};
use std::path::PathBuf;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Health {
    dir: PathBuf,
    failed: OnceLock<Failure>,
    /// Why a volume stopped whose disk had no room for what a sync should have made durable.
    full: OnceLock<String>,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    /// The disk only refuses to be written: what is there still reads.
    read_only: bool,
}

impl Health {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, failed: OnceLock::new(), full: OnceLock::new() }
    }

    /// Why the volume takes no more writes; `None` for a sound one.
    pub(crate) fn failure(&self) -> Option<&str> {
        let failed = self.failed.get().map(|failure| failure.reason.as_str());
        failed.or_else(|| self.full.get().map(String::as_str))
    }

    /// True if the volume stopped only because its disk is full: what it has is still good.
    pub(crate) fn is_full(&self) -> bool {
        self.full.get().is_some() && self.failed.get().is_none()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.failed.get().is_some_and(|failure| failure.read_only)
    }

    /// Refuses what would write.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |reason| Err(ReplicaError::VolumeFailed { reason: reason.to_owned() }))
    }

    /// As [`Self::check`], but passes a volume that is only full: its replicas are there.
    pub(crate) fn check_sound(&self) -> Result<()> {
        if self.is_full() { Ok(()) } else { self.check() }
    }

    /// Stops the volume after an error of the disk, as it is unknown what a failed write has left. A full disk, or a
    /// machine out of descriptors, stops it only if a sync failed.
    pub(crate) fn note<T>(&self, outcome: &Result<T>) {
        match outcome {
            Err(ReplicaError::Io { source, op: op @ DiskOp::Sync(_), .. }) if is_full(source) => {
                let advice = "what was written may be lost; make room on the disk, then restart the datanode";
                self.stop_full(format!("{op}: {source}: {advice}"));
            }
            Err(ReplicaError::Io { source, op: op @ DiskOp::Sync(_), .. }) => {
                self.fail(format!("{op}: {source}"), errno::is_read_only(source));
            }
            // A bad sector concerns one replica.
            Err(ReplicaError::Io { op: DiskOp::Read(_), .. }) => {}
            Err(ReplicaError::Io { source, op, .. }) if errno::is_of_disk(source) => {
                self.fail(format!("{op}: {source}"), errno::is_read_only(source));
            }
            Err(ReplicaError::Index(error)) => self.fail(error.to_string(), false),
            _ => {}
        }
    }

    pub(crate) fn fail(&self, reason: String, read_only: bool) {
        if self.failed.set(Failure { reason: reason.clone(), read_only }).is_ok() {
            tracing::error!(dir = %self.dir.display(), reason, "the volume takes no more writes");
        }
    }

    pub(crate) fn stop_full(&self, reason: String) {
        if self.full.set(reason.clone()).is_ok() {
            tracing::error!(dir = %self.dir.display(), reason, "the volume is full and takes no more writes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_sync::GroupSync;
    use rustix::io::Errno;
    use std::io::Error;
    use types::ContainerId;

    /// What becomes of a sound volume after these failures, one after the other.
    fn check(failures: Vec<(DiskOp, Error)>, want: &str) {
        let health = Health::new(PathBuf::from("/disk"));
        let told = format!("{failures:?}");
        for (op, source) in failures {
            health.note::<()>(&Err(ReplicaError::Io { op, container: ContainerId(7), source }));
        }
        let is = match (health.failure(), health.is_full(), health.is_read_only()) {
            (None, ..) => "sound",
            (_, true, _) => "full",
            (_, _, true) => "read-only",
            _ => "failed",
        };
        assert_eq!(is, want, "{told}");
        assert_eq!(health.check().is_ok(), want == "sound", "{told}");
        assert_eq!(health.check_sound().is_ok(), matches!(want, "sound" | "full"), "{told}");
    }

    fn number(errno: Errno) -> Error {
        errno.into()
    }

    /// The text of the operation decides nothing: these name none that the code has.
    const REWORDED: [DiskOp; 3] = [DiskOp::Sync("x"), DiskOp::Sync("made durable"), DiskOp::Sync("")];

    #[test]
    fn any_failed_sync_stops_the_volume_whatever_the_error_says() {
        for op in REWORDED {
            for errno in [Errno::TIMEDOUT, Errno::STALE, Errno::BADMSG, Errno::IO, Errno::MFILE, Errno::INVAL] {
                check(vec![(op, number(errno))], "failed");
            }
            check(vec![(op, Error::other("an error without a number"))], "failed");
            check(vec![(op, number(Errno::ROFS))], "read-only");
            check(vec![(op, number(Errno::NOSPC))], "full");
            check(vec![(op, number(Errno::DQUOT))], "full");
        }
    }

    /// Those who share a failed sync, or ask later, get an error without a number; it tells as much as the first.
    #[test]
    fn who_shared_a_failed_sync_decides_as_who_ran_it() {
        for (errno, want) in [(Errno::TIMEDOUT, "failed"), (Errno::IO, "failed"), (Errno::NOSPC, "full")] {
            let group = GroupSync::default();
            group.sync(|| Err(number(errno))).unwrap_err();
            let shared = group.sync(|| Ok(())).unwrap_err();
            assert_eq!(shared.raw_os_error(), None);
            check(vec![(DiskOp::Sync("the pack"), shared)], want);
        }
    }

    #[test]
    fn a_full_volume_fails_with_the_next_sync_that_fails_otherwise() {
        let full = || (DiskOp::Sync("data"), number(Errno::NOSPC));
        check(vec![full(), full()], "full");
        check(vec![full(), (DiskOp::Sync("data"), number(Errno::TIMEDOUT))], "failed");
    }

    #[test]
    fn what_is_no_sync_stops_the_volume_only_by_an_error_of_the_disk() {
        for op in [DiskOp::Write("sync"), DiskOp::Rename("sync"), DiskOp::Open("sync data"), DiskOp::Look("sync")] {
            check(vec![(op, number(Errno::IO))], "failed");
            check(vec![(op, number(Errno::ROFS))], "read-only");
            for errno in [Errno::NOSPC, Errno::MFILE, Errno::TIMEDOUT] {
                check(vec![(op, number(errno))], "sound");
            }
        }
        check(vec![(DiskOp::Read("sync"), number(Errno::IO))], "sound");
    }
}
