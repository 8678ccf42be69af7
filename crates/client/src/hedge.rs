//! When a second node is asked beside the first: pure. It follows how fast datanodes answer, so that one that takes
//! unusually long is not waited for while others have the same block.
//!
//! Promise: whatever the store is like, it sees one read in twenty more than without this at most, and a few at the
//! beginning. Who was slow is asked last for a while ([`crate::choice`]), so a client pays once.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hedging {
    /// The last answers' times, the oldest overwritten first.
    recent: Vec<Duration>,
    next: usize,
    /// Of those; computed anew now and then.
    p95: Option<Duration>,
    /// Twentieths of reads that may be asked for a second time; what was taken is negative.
    spare: i64,
}

/// Answers remembered: enough that twelve of them are above the 95th percentile.
const RECENT_COUNT: usize = 256;
/// As many answers there must be, and come between two computations.
const COMPUTE_EACH: usize = 32;
/// Asking another node costs a connection and a disk's seek; below this it saves nothing. A guess.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
/// What is usual may come from the slow node alone, so it is not believed beyond this: what a disk's seek takes when
/// others wait for it too.
const PATIENCE_MAX: Duration = Duration::from_millis(40);
/// In mid-stream a node is given up, not raced, so it gets more time.
const STALL_FACTOR: u32 = 4;
const STALL_MIN: Duration = Duration::from_millis(60);
const STALL_MAX: Duration = Duration::from_secs(2);
/// Measured at 22 ms with 32 connections and 65 MB: some brought nothing for a fifth of a second, and were read again.
const STALL_ROUND_TRIPS: u32 = 100;
/// Each so many reads one may be asked for twice, and so many from the beginning.
const READS_PER_SPARE: i64 = 20;
const SPARE_COUNT_MAX: i64 = 4;
/// Bytes that a new connection brings in its first round trip: ten segments, as Linux has it. In each further one it
/// brings twice as many as in the one before.
const FIRST_WINDOW_LEN: u64 = 14_480;
/// Bytes that a healthy node brings in a second, at the least: what an answer's length adds to its time.
const BYTES_PER_S: u64 = 50_000_000;

impl Hedging {
    /// A node began to answer after this time.
    pub(crate) fn took(&mut self, time: Duration) {
        self.spare = (self.spare + 1).min(0);
        match self.recent.get_mut(self.next) {
            Some(oldest) => *oldest = time,
            None => self.recent.push(time),
        }
        self.next = (self.next + 1) % RECENT_COUNT;
        assert!(self.recent.len() <= RECENT_COUNT, "{} answers are remembered", self.recent.len());
        if self.next.is_multiple_of(COMPUTE_EACH) {
            let mut sorted = self.recent.clone();
            sorted.sort_unstable();
            self.p95 = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }

    /// How long to wait for `len` bytes before another node is asked for them too. What the way there takes is no fault
    /// of the node: to connect, to ask, and until the connection carries as much as that.
    pub(crate) fn patience(&self, len: u64, round_trip: Duration) -> Duration {
        let usual = self.p95.map_or(PATIENCE_MAX, |p95| p95.clamp(PATIENCE_MIN, PATIENCE_MAX));
        let turns = 2 + (1 + len / FIRST_WINDOW_LEN).ilog2();
        usual + round_trip * turns + Duration::from_millis(len * 1000 / BYTES_PER_S)
    }

    /// How long a stream may bring nothing before another node goes on with it; `None`: this was done often enough.
    /// From far away a silence is the link's more often than the node's: many connections share it, and what it lost
    /// is sent again after some round trips.
    pub(crate) fn stall(&self, round_trip: Duration) -> Option<Duration> {
        let usual = self.p95.map_or(STALL_MAX, |p95| (p95 * STALL_FACTOR).clamp(STALL_MIN, STALL_MAX));
        let of_link = (round_trip * STALL_ROUND_TRIPS).min(STALL_MAX);
        self.has_spare().then_some(usual.max(of_link) + round_trip * STALL_FACTOR)
    }

    /// Whether one more read may be asked for twice. If so, it counts as asked.
    pub(crate) fn take_spare(&mut self) -> bool {
        let may = self.has_spare();
        self.spare -= if may { READS_PER_SPARE } else { 0 };
        assert!(-self.spare < (SPARE_COUNT_MAX + 1) * READS_PER_SPARE, "more reads were asked twice than may be");
        may
    }

    fn has_spare(&self) -> bool {
        self.spare > -SPARE_COUNT_MAX * READS_PER_SPARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_what_is_usual() {
        let mut hedging = Hedging::default();
        assert_eq!(hedging.patience(0, Duration::ZERO), PATIENCE_MAX);
        for number in 0..64 {
            hedging.took(Duration::from_millis(if number % 32 == 0 { 900 } else { 20 }));
        }
        let patience = hedging.patience(0, Duration::ZERO);
        assert_eq!(patience, Duration::from_millis(20), "one slow answer in thirty-two changes nothing");
        assert_eq!(hedging.patience(50_000_000, Duration::ZERO), Duration::from_millis(1020));
        assert_eq!(hedging.stall(Duration::ZERO), Some(Duration::from_millis(80)));
        for _ in 0..RECENT_COUNT {
            hedging.took(Duration::from_micros(100));
        }
        assert_eq!(
            (hedging.patience(0, Duration::ZERO), hedging.stall(Duration::ZERO)),
            (PATIENCE_MIN, Some(STALL_MIN))
        );
    }

    /// Or everything would be asked for twice over a wide link, which both askings then share.
    #[test]
    fn a_node_far_away_is_not_taken_for_a_slow_one() {
        let (hedging, far) = (Hedging::default(), Duration::from_millis(240));
        assert!(hedging.patience(1, far) >= 2 * far, "to connect and to ask");
        let mut near = hedging.clone();
        (0..COMPUTE_EACH).for_each(|_| near.took(Duration::from_millis(22)));
        assert!(near.stall(Duration::from_millis(22)) > Some(STALL_MAX), "others have the link meanwhile");
        // 10, 20 and 40 segments, after the handshake.
        assert!(hedging.patience(100_000, far) >= 4 * far);
    }

    #[test]
    fn a_slow_store_is_not_asked_for_everything_twice() {
        let mut hedging = Hedging::default();
        let asked_twice = (0..2000).filter(|_| {
            hedging.took(Duration::from_secs(1));
            hedging.take_spare()
        });
        let most = SPARE_COUNT_MAX + 1 + 2000 / READS_PER_SPARE;
        assert!((most - 5..=most).contains(&(asked_twice.count() as i64)));
    }
}
