//! One disk that was opened, and what is known of it without asking it.

use crate::load::Load;
use container::{ReplicaError, Volume, VolumeError, VolumeIdentity};
use io::{Clock, SystemClock, ThreadQuota};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::Millis;

#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    volume: Volume,
    load: Load,
    gauge: Mutex<Gauge>,
    thread_quota: ThreadQuota,
    hangs: AtomicBool,
    /// Milliseconds since 1970 at which the replica that waits longest was read last; 0: nobody reads them.
    unread_since: AtomicU64,
}

/// What a disk said last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) usage: container::VolumeUsage,
    /// Rises with each answer.
    pub(crate) at: Duration,
}

impl Disk {
    /// `thread_quota`: threads of the runtime that it may hold.
    pub(crate) fn new(dir: &Path, volume: Volume, thread_quota: ThreadQuota) -> Self {
        let gauge = Gauge { usage: volume.usage().unwrap_or_default(), ..Gauge::default() };
        Self {
            dir: dir.to_owned(),
            volume,
            load: Load::default(),
            gauge: Mutex::new(gauge),
            thread_quota,
            hangs: AtomicBool::new(false),
            unread_since: AtomicU64::new(0),
        }
    }

    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn thread_quota(&self) -> &ThreadQuota {
        &self.thread_quota
    }

    pub(crate) fn identity(&self) -> VolumeIdentity {
        self.volume.identity()
    }

    pub(crate) fn join_pool(&self, pool: &str) -> Result<(), VolumeError> {
        self.volume.join_pool(pool)
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// Bytes of replicas, as far as was heard.
    pub fn used_len(&self) -> u64 {
        self.gauge().usage.used
    }

    pub fn set_unread_since(&self, since: Millis) {
        self.unread_since.store(since.0, Ordering::Relaxed);
    }

    /// For how long the replica that waits longest for the background scrub was not read. `None`: there is none, or
    /// nobody reads them.
    pub(crate) fn unread_ms(&self, now: Millis) -> Option<u64> {
        let since = self.unread_since.load(Ordering::Relaxed);
        (since > 0 && self.gauge().usage.replica_count > 0).then(|| now.0.saturating_sub(since))
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.volume.failure().is_none()
    }

    /// What is there is as good as ever, whether it takes more or not.
    pub(crate) fn keeps(&self) -> bool {
        self.is_sound() || self.volume.is_full()
    }

    /// It was declared failed, and threads may be waiting for it still.
    pub fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    /// It has not answered for too long: nothing counts any more that is there, and nobody waits for it.
    pub(crate) fn declare_failed(&self, reason: String) {
        self.volume.declare_failed(reason);
        assert!(!self.is_sound(), "a disk that was declared failed takes nothing any more");
        self.hangs.store(true, Ordering::Release);
        self.thread_quota.abandon();
    }

    pub(crate) fn gauge(&self) -> Gauge {
        *self.gauge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the disk how full it is. Waits for it.
    pub(crate) fn probe(&self, clock: &SystemClock) -> Result<(), ReplicaError> {
        self.volume.check_directory()?;
        let usage = self.volume.usage()?;
        let at = clock.monotonic();
        let mut gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two probes at the same time the one that began last may have ended first.
        *gauge = Gauge { usage, at: at.max(gauge.at) };
        Ok(())
    }

    /// As if it had answered at this time.
    #[cfg(test)]
    pub(crate) fn set_answered(&self, at: Duration) {
        self.gauge.lock().unwrap_or_else(PoisonError::into_inner).at = at;
    }

    /// Why nothing is done there any more.
    pub(crate) fn failed_error(&self) -> ReplicaError {
        let reason = self.volume.failure().unwrap_or("it has failed").to_owned();
        ReplicaError::VolumeFailed { reason: format!("{}: {reason}", self.dir.display()) }
    }
}
