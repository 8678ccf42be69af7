//! How long the operations took, shortest first.

use serde::Serialize;
use std::time::Duration;

/// Sorted.
#[derive(Debug)]
pub(super) struct Latencies(Vec<Duration>);

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Latencies {
    pub(super) fn new(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }

    /// `None` if nothing was done.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let max = self.0.last()?.as_secs_f64() * 1e3;
        let at = |per_mille| self.within(per_mille).as_secs_f64() * 1e3;
        Some(Percentiles { p50: at(500), p90: at(900), p99: at(990), max })
    }

    /// The least time within which so many of a thousand were done; zero if nothing was.
    pub(super) fn within(&self, per_mille: usize) -> Duration {
        let rank = (self.0.len() * per_mille).div_ceil(1000).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let of = |count: u64| Latencies::new((1..=count).rev().map(Duration::from_millis).collect()).percentiles();
        let found = of(200).unwrap();
        assert_eq!((found.p50, found.p90, found.p99, found.max), (100.0, 180.0, 198.0, 200.0));
        let one = of(1).unwrap();
        assert_eq!((one.p50, one.p99, one.max), (1.0, 1.0, 1.0));
        assert!(of(0).is_none());
    }
}
