//! How far this member's own log is on disk. Others may have had an entry there first, and then it is applied before it
//! is on disk here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A cheap handle; all clones know the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synced(Arc<AtomicU64>);

impl Synced {
    /// `last`: the index of the last entry.
    pub(crate) fn tell(&self, last: Option<u64>) {
        self.0.store(last.map_or(0, |index| index.saturating_add(1)), Ordering::Release);
    }

    pub(crate) fn has(&self, index: u64) -> bool {
        index < self.0.load(Ordering::Acquire)
    }
}
