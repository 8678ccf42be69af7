//! The latest count of blocks with too few copies. [`CensusRound`](crate::CensusRound) counts.
//!
//! Promise: counting takes at most a tenth of one thread's time, however many callers ask. A result is reused for ten
//! times as long as the count took.

use namespace::BlockView;
use std::sync::Arc;
use std::time::Duration;

/// A count is reused for so many times as long as it took.
const TOLD_TIMES: u32 = 10;
/// A caller has a count made if that takes no longer; otherwise it gets the last one.
const WAITED_FOR: Duration = Duration::from_secs(1);

/// A block with too few copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LackingBlock {
    pub view: BlockView,
    pub live: u16,
    pub wanted: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub under_replicated: u64,
    /// Of these, how many copies there are too few.
    pub missing_replicas: u64,
    pub missing: u64,
    /// Of these, blocks of files that ask for one copy.
    pub missing_alone: u64,
    /// Blocks of which a copy is damaged, whether or not another is sound.
    pub corrupt: u64,
    /// Blocks of which a copy is ordered, or waits for its turn.
    pub pending: u64,
    /// Some of the missing blocks, and then some of the under-replicated ones.
    pub named: Vec<LackingBlock>,
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
pub struct LastCensus {
    census: Arc<Census>,
    /// When it was, and how long it took. `None`: nothing was counted yet.
    counted: Option<(Duration, Duration)>,
}

impl LastCensus {
    /// As it was counted last, whenever that was.
    pub fn last(&self) -> Arc<Census> {
        Arc::clone(&self.census)
    }

    /// The count that callers get; `None`: it is to be counted anew, which does not take long.
    pub fn cached(&self) -> Option<Arc<Census>> {
        let is_slow = self.counted.is_some_and(|(_, took)| took > WAITED_FOR);
        is_slow.then(|| self.last())
    }

    /// The last one, unless it is time to count anew.
    pub fn holding(&self, now: Duration) -> Option<Arc<Census>> {
        let (at, took) = self.counted?;
        (now.saturating_sub(at) < took * TOLD_TIMES).then(|| self.last())
    }

    /// It was counted between these moments.
    pub fn on_counted(&mut self, census: Census, begun: Duration, now: Duration) -> Arc<Census> {
        census.check();
        assert!(begun <= now, "a count ends before it began: by a clock that goes back");
        (self.census, self.counted) = (Arc::new(census), Some((now, now.saturating_sub(begun))));
        self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_told_for_longer() {
        let at = Duration::from_millis;
        let mut last = LastCensus::default();
        assert_eq!((last.holding(at(0)), last.cached()), (None, None), "nobody has counted");
        let first = Census { corrupt: 1, ..Census::default() };
        last.on_counted(first.clone(), at(100), at(150));
        assert_eq!(last.holding(at(649)).as_deref(), Some(&first));
        assert_eq!((last.holding(at(650)), last.cached()), (None, None));
        last.on_counted(Census::default(), at(700), at(1701));
        assert_eq!((last.holding(at(11_711)), last.cached()), (None, Some(Arc::new(Census::default()))));
    }

    #[test]
    #[should_panic(expected = "each of them lacks one")]
    fn counts_that_cannot_be_are_found() {
        let census = Census { under_replicated: 2, missing_replicas: 1, ..Census::default() };
        LastCensus::default().on_counted(census, Duration::ZERO, Duration::ZERO);
    }
}
