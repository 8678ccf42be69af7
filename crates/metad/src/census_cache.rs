//! How many blocks have too few copies, as it was counted last. Who counts is [`crate::repair::census`].
//!
//! Promise: however many ask, counting takes a tenth of one thread's time at most: what was counted is told again for
//! ten times as long as it took.

use namespace::BlockView;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::rows::RowsError;

/// What was counted is told for so many times as long as it took.
const TOLD_TIMES: u32 = 10;

/// A block with too few copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LackingBlock {
    pub(crate) view: BlockView,
    pub(crate) live: u16,
    pub(crate) wanted: u16,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) under_replicated: u64,
    /// Of these, how many copies there are too few.
    pub(crate) missing_replicas: u64,
    pub(crate) missing: u64,
    /// Of these, blocks of files that ask for one copy.
    pub(crate) missing_alone: u64,
    /// Blocks of which a copy is damaged, whether or not another is sound.
    pub(crate) corrupt: u64,
    /// Blocks of which a copy is ordered, or waits for its turn.
    pub(crate) pending: u64,
    /// Some of the missing blocks, and then some of the under-replicated ones.
    pub(crate) named: Vec<LackingBlock>,
}

impl Census {
    /// What counts of one kind are part of others.
    fn check(&self) {
        assert!(self.missing_alone <= self.missing, "{self:?}");
        assert!(self.under_replicated <= self.missing_replicas, "each of them lacks one: {self:?}");
        let poor_count = self.missing.saturating_add(self.under_replicated);
        assert!(self.named.len() as u64 <= poor_count, "{} of {poor_count} are named", self.named.len());
        debug_assert!(self.named.iter().all(|poor| poor.live < poor.wanted || poor.live == 0), "{:?}", self.named);
    }
}

/// What was counted last.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    last: Mutex<Option<Last>>,
    /// One counts at a time.
    turn: Mutex<()>,
}

#[derive(Clone, Debug)]
pub(crate) struct Last {
    pub(crate) census: Arc<Census>,
    at: Duration,
    pub(crate) took: Duration,
}

impl Counted {
    /// As it was counted last, without waiting.
    pub(crate) fn last(&self) -> Arc<Census> {
        self.known().map(|last| last.census).unwrap_or_default()
    }

    pub(crate) fn known(&self) -> Option<Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has `count` count, unless what was counted last still holds. May wait for the disk.
    pub(crate) fn count(
        &self,
        now: impl Fn() -> Duration,
        count: impl FnOnce() -> Result<Census, RowsError>,
    ) -> Result<Arc<Census>, RowsError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = now();
        if let Some(last) = self.known()
            && begun.saturating_sub(last.at) < last.took * TOLD_TIMES
        {
            return Ok(last.census);
        }
        let census = Arc::new(count()?);
        census.check();
        let at = now();
        assert!(begun <= at, "a count ends before it began: by a clock that goes back");
        let last = Last { census: Arc::clone(&census), at, took: at.saturating_sub(begun) };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        Ok(census)
    }
}
