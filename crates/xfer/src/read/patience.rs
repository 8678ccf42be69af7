//! How long a reader waits for a node that brings nothing, or too little.
//!
//! Promise: of the time that the node is waited for, none that is as long as `stall` brings less than
//! [`PROGRESS_PER_S`] wants. What the reader itself takes does not count, and what is excused: up to a limit.

use crate::fault::Fault;
use std::time::Duration;

/// A node that brings less is as good as one that brings nothing: it could hold a reader for days. An eighth of a slow
/// link of 1 Mbit/s.
const PROGRESS_PER_S: u128 = 16 << 10;
/// No more than that is wanted within `stall`, however long it is: a disk may be busy for a while.
const PROGRESS_LEN_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Patience {
    /// How long the node may bring nothing, or too little, while it is waited for.
    stall: Duration,
    waits_since: Option<Duration>,
    /// Since the node last brought enough, or was excused: how long it was waited for, and the bytes that came.
    waited: Duration,
    came_len: usize,
    /// Since it last brought enough: how long it was waited for beside that.
    excused: Duration,
}

impl Patience {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { stall, waits_since: None, waited: Duration::ZERO, came_len: 0, excused: Duration::ZERO }
    }

    /// The connection has nothing now. From then on the node is waited for, until something comes.
    pub(crate) fn on_blocked(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    pub(crate) fn on_received(&mut self, now: Duration, len: usize) {
        if let Some(since) = self.waits_since.take() {
            self.waited += now.saturating_sub(since);
        }
        self.came_len += len;
        if self.came_len >= self.progress_len() {
            self.on_progress();
        }
    }

    /// The node has brought enough, whatever its length.
    pub(crate) fn on_progress(&mut self) {
        (self.waited, self.came_len, self.excused) = (Duration::ZERO, 0, Duration::ZERO);
    }

    /// It was silent for too long, and not by its own fault: it is waited for as long once more, but in all no longer
    /// than `limit`. False: that is over.
    pub(crate) fn excuse(&mut self, now: Duration, limit: Duration) -> bool {
        let excused = self.excused.saturating_add(self.stall);
        if excused.saturating_add(self.stall) > limit {
            return false;
        }
        (self.waited, self.came_len, self.excused) = (Duration::ZERO, 0, excused);
        self.waits_since = self.waits_since.map(|_| now);
        true
    }

    /// Bytes that `stall` is to bring. The rest of what was asked for may be less: then all of it.
    fn progress_len(&self) -> usize {
        let len = self.stall.as_millis() * PROGRESS_PER_S / 1000;
        usize::try_from(len).map_or(PROGRESS_LEN_MAX, |len| len.min(PROGRESS_LEN_MAX))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.waits_since.map(|since| since.saturating_add(self.stall.saturating_sub(self.waited)))
    }

    pub(crate) fn handle_timeout(&self, now: Duration) -> Result<(), Fault> {
        if self.poll_timeout().is_some_and(|limit| now >= limit) { Err(Fault::Silent) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn excuses_have_an_end_and_progress_begins_anew() {
        let mut patience = Patience::new(STALL);
        patience.on_blocked(at(10));
        for excused_at in [12, 14] {
            assert_eq!(patience.handle_timeout(at(excused_at) - Duration::from_millis(1)), Ok(()));
            assert_eq!(patience.handle_timeout(at(excused_at)), Err(Fault::Silent));
            assert!(patience.excuse(at(excused_at), 3 * STALL));
        }
        // A little now and then is no progress.
        patience.on_received(at(15), 1);
        patience.on_blocked(at(15));
        assert_eq!(patience.handle_timeout(at(16)), Err(Fault::Silent));
        assert!(!patience.excuse(at(16), 3 * STALL));
        patience.on_received(at(16), PROGRESS_LEN_MAX);
        patience.on_blocked(at(20));
        assert_eq!(patience.poll_timeout(), Some(at(22)));
        assert!(patience.excuse(at(22), 3 * STALL));
    }
}
