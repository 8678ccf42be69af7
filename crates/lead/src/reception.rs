//! The time since which a leader receives its datanodes' heartbeats without a gap.
//!
//! Promise: a time in which it received none never counts as the silence of a datanode. That is when its process stood
//! still, or no majority confirmed that it leads. After a gap that was too long, reception begins anew.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Reception {
    /// Longest time between two signs of reception in which nothing was missed.
    gap_max: Duration,
    /// By the clock of the decisions.
    since: Duration,
    /// The last sign, by the clock of the machine, which advances while the process stands still.
    last: Duration,
}

impl Reception {
    /// Begins at `now` by the clock of the decisions, at `machine` by the machine's.
    pub fn new(now: Duration, machine: Duration, gap_max: Duration) -> Self {
        Self { gap_max, since: now, last: machine }
    }

    /// A sign of reception: at this moment the leader is sure to lead, and so counts heartbeats. True: a gap has ended.
    pub fn confirm(&mut self, now: Duration, machine: Duration) -> bool {
        let was_gap = self.is_gap(machine);
        if was_gap {
            self.since = now;
        }
        self.last = self.last.max(machine);
        was_gap
    }

    /// Since when a node's silence counts. Within a gap: from now on, at the earliest.
    pub fn since(&self, now: Duration, machine: Duration) -> Duration {
        if self.is_gap(machine) { now } else { self.since }
    }

    fn is_gap(&self, machine: Duration) -> bool {
        machine.saturating_sub(self.last) > self.gap_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_begins_it_anew() {
        let second = Duration::from_secs;
        let mut reception = Reception::new(second(10), Duration::ZERO, second(3));
        // Machine's clock, the decisions' clock, whether it is confirmed then, and since when it receives.
        let story = [
            (0, 10, true, 10),
            (3, 40, true, 10),
            (6, 43, true, 10),
            (10, 47, false, 47),
            (11, 48, false, 48),
            (11, 48, true, 48),
            (12, 90, true, 48),
            (17, 95, true, 95),
        ];
        for (machine, now, is_confirmed, since) in story {
            if is_confirmed {
                reception.confirm(second(now), second(machine));
            }
            assert_eq!(reception.since(second(now), second(machine)), second(since), "at {now}");
        }
    }
}
