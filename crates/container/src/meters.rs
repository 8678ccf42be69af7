//! What the volumes of a datanode count, each under its directory.

use crate::error::{DiskOp, ReplicaError};
use io::{Clock, SystemClock};
use metrics::{Counter, Family, Histogram, Registry};
use std::path::Path;

/// The families that all volumes count into.
#[derive(Clone, Debug)]
pub struct Meters {
    syncs: Family<Histogram>,
    read: Family<Counter>,
    written: Family<Counter>,
    errors: Family<Counter>,
}

impl Meters {
    pub fn new(registry: &mut Registry) -> Self {
        const DIR: &[&str] = &["dir"];
        Self {
            syncs: registry.latencies(
                "levada_disk_sync_duration_seconds",
                "Time that syncs of data, checksums, packs and names took; of a sync that several share, each",
                DIR,
            ),
            read: registry.counters("levada_disk_read_bytes_total", "Bytes of replicas sent to readers", DIR),
            written: registry.counters("levada_disk_written_bytes_total", "Bytes of replicas written", DIR),
            errors: registry.counters(
                "levada_disk_errors_total",
                "Operations on replicas that the disk refused, by what was to be done",
                &["dir", "op"],
            ),
        }
    }

    /// Those of the volume in this directory, as it was configured.
    pub(crate) fn of(&self, dir: &Path) -> VolumeMeters {
        let dir = dir.display().to_string();
        VolumeMeters {
            syncs: self.syncs.with(&[&dir]),
            read: self.read.with(&[&dir]),
            written: self.written.with(&[&dir]),
            errors: self.errors.clone(),
            dir,
            clock: SystemClock::new(),
        }
    }
}

/// Shown nowhere.
impl Default for Meters {
    fn default() -> Self {
        Self::new(&mut Registry::default())
    }
}

/// The handles of one volume.
#[derive(Debug)]
pub(crate) struct VolumeMeters {
    syncs: Histogram,
    pub(crate) read: Counter,
    pub(crate) written: Counter,
    errors: Family<Counter>,
    dir: String,
    clock: SystemClock,
}

impl VolumeMeters {
    /// Makes something durable, and counts how long that took. What a failed sync took counts as well.
    pub(crate) fn sync<T>(&self, run: impl FnOnce() -> T) -> T {
        let began = self.clock.monotonic();
        let done = run();
        self.syncs.observe(self.clock.monotonic().saturating_sub(began));
        done
    }

    pub(crate) fn note<T>(&self, outcome: &Result<T, ReplicaError>) {
        if let Err(ReplicaError::Io { op, .. }) = outcome {
            self.errors.with(&[&self.dir, op_name(*op)]).inc();
        }
    }
}

fn op_name(op: DiskOp) -> &'static str {
    match op {
        DiskOp::Open(_) => "open",
        DiskOp::Create(_) => "create",
        DiskOp::List(_) => "list",
        DiskOp::Look(_) => "look",
        DiskOp::Read(_) => "read",
        DiskOp::Write(_) => "write",
        DiskOp::Cut(_) => "cut",
        DiskOp::Sync(_) => "sync",
        DiskOp::Rename(_) => "rename",
        DiskOp::Remove(_) => "remove",
    }
}
