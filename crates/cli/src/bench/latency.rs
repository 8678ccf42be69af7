//! How long the files took, in the order of patience.

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
        Some(Percentiles { p50: self.at(50), p90: self.at(90), p99: self.at(99), max })
    }

    /// The least time within which `percent` of them were done.
    fn at(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).map_or(0.0, |duration| duration.as_secs_f64() * 1e3)
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
