//! What a member counts of its log and its machine.

use ::io::{Clock, SystemClock};
use metrics::{Buckets, Histogram, Registry};
use std::time::Duration;

/// Cheap handles; all clones count into the same.
#[derive(Clone, Debug)]
pub struct Meters {
    clock: SystemClock,
    pub(crate) syncs: Histogram,
    pub(crate) append_lens: Histogram,
    pub(crate) applies: Histogram,
    pub(crate) apply_counts: Histogram,
    pub(crate) flushes: Histogram,
    pub(crate) proposals: Histogram,
}

impl Meters {
    pub fn new(registry: &mut Registry) -> Self {
        let mut times = |name, help| registry.histogram(name, help, Buckets::LATENCY);
        let syncs = times("levada_raft_log_sync_duration_seconds", "Time that a sync of the log took");
        let applies = times("levada_raft_apply_duration_seconds", "Time to apply the entries of one batch to the rows");
        let flushes = times("levada_raft_flush_duration_seconds", "Time to bring applied rows to LMDB");
        let proposals = times(
            "levada_raft_proposal_duration_seconds",
            "Time from a proposal to its reply: waiting for room, replication, syncs, applying",
        );
        let append_lens = registry.histogram(
            "levada_raft_log_append_bytes",
            "Bytes of the log that were written and synced at once",
            Buckets::LEN,
        );
        let apply_counts =
            registry.histogram("levada_raft_apply_entries", "Entries of one batch that was applied", Buckets::COUNT);
        Self { clock: SystemClock::new(), syncs, append_lens, applies, apply_counts, flushes, proposals }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(crate) fn since(&self, began: Duration) -> Duration {
        self.now().saturating_sub(began)
    }
}

/// Shown nowhere.
impl Default for Meters {
    fn default() -> Self {
        Self::new(&mut Registry::default())
    }
}
