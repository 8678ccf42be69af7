//! A metadata server that a node cannot reach: how often the log says why.
//!
//! Promise: why is said at once, each minute while the node has no server that leads, and each hour while it has one:
//! then another server of the group is away, perhaps for days.

use io::LogLimit;
use std::time::Duration;

/// As often as `levada data` says that it waits.
const ALONE_EACH: Duration = Duration::from_secs(60);
/// A guess, as of what only an administrator changes.
const LED_EACH: Duration = Duration::from_secs(3600);

/// Of one server.
#[derive(Debug)]
pub(super) struct Unreachable {
    alone: LogLimit,
    led: LogLimit,
}

impl Default for Unreachable {
    fn default() -> Self {
        Self { alone: LogLimit::new(ALONE_EACH), led: LogLimit::new(LED_EACH) }
    }
}

impl Unreachable {
    /// Whether it is to be said now; if so, how often it was not since the last time. `has_leader`: the node has a
    /// server that leads.
    pub(super) fn due(&self, has_leader: bool) -> Option<u64> {
        if has_leader { self.led.due() } else { self.alone.due() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_is_said_once_for_each_of_the_two_cases() {
        let unreachable = Unreachable::default();
        let due = [true, true, false, false].map(|has_leader| unreachable.due(has_leader));
        assert_eq!(due, [Some(0), None, Some(0), None]);
    }
}
