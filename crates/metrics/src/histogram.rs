//! How many observations fell into each range, and their sum.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The ranges of a histogram: what is counted below which bound.
#[derive(Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds, included, in what is counted; ascending. A last range above them takes the rest.
    bounds: &'static [u64],
    /// What is shown of one that was counted: seconds are counted in nanoseconds.
    scale: f64,
}

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

impl Buckets {
    /// From a call that finds everything in memory to one that ends by a time limit. Round numbers: alerts name them.
    pub const LATENCY: Self = Self {
        bounds: &[
            10 * MICRO,
            25 * MICRO,
            50 * MICRO,
            100 * MICRO,
            250 * MICRO,
            500 * MICRO,
            MILLI,
            5 * MILLI / 2,
            5 * MILLI,
            10 * MILLI,
            25 * MILLI,
            50 * MILLI,
            100 * MILLI,
            250 * MILLI,
            500 * MILLI,
            SECOND,
            5 * SECOND / 2,
            5 * SECOND,
            10 * SECOND,
            30 * SECOND,
        ],
        scale: 1e-9,
    };

    /// Bytes of one write.
    pub const LEN: Self = Self {
        bounds: &[256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
        scale: 1.0,
    };

    /// How many things were done at once.
    pub const COUNT: Self = Self { bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], scale: 1.0 };
}

/// A cheap handle; all clones count into the same. Two relaxed atomic adds an observation.
#[derive(Clone)]
pub struct Histogram(Arc<Inner>);

struct Inner {
    buckets: Buckets,
    /// One more than there are bounds.
    counts: Box<[AtomicU64]>,
    /// In what is counted. 584 years of nanoseconds.
    sum: AtomicU64,
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Histogram {
    /// Of no registry: shown nowhere.
    pub fn new(buckets: Buckets) -> Self {
        debug_assert!(buckets.bounds.is_sorted(), "{:?}", buckets.bounds);
        let counts = (0..=buckets.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { buckets, counts, sum: AtomicU64::new(0) }))
    }

    /// Counts how long something took. Of a histogram of seconds.
    pub fn observe(&self, time: Duration) {
        debug_assert!(self.0.buckets.scale < 1.0, "this histogram has no times");
        self.count_one(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts how much or how many something was.
    pub fn observe_count(&self, count: u64) {
        debug_assert!(self.0.buckets.scale >= 1.0, "this histogram has times");
        self.count_one(count);
    }

    fn count_one(&self, value: u64) {
        let Inner { buckets, counts, sum } = &*self.0;
        let place = buckets.bounds.partition_point(|bound| *bound < value);
        counts[place].fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Observations so far.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Inner { buckets, counts, sum } = &*self.0;
        let bounds = buckets.bounds.iter().map(|bound| shown(*bound, buckets.scale)).chain([f64::INFINITY]);
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let ranges: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // Counted here, so that it is what the ranges add up to while others count on.
        let count = ranges.iter().map(|(_, count)| count).sum();
        let sum = shown(sum.load(Ordering::Relaxed), buckets.scale);
        encoder.encode_histogram(sum, count, &ranges, None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Divided where it is a fraction: 0.0025 is the nearest number to 2,500,000 / 1e9, and not to 2,500,000 × 1e-9.
fn shown(value: u64, scale: f64) -> f64 {
    if scale < 1.0 { value as f64 / (1.0 / scale).round() } else { value as f64 * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_range() {
        let histogram = Histogram::new(Buckets::COUNT);
        [0, 1, 2, 3, 4, 1024, 1025, u64::MAX / 2].iter().for_each(|count| histogram.observe_count(*count));
        let counts: Vec<u64> = histogram.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(histogram.count(), 8);
    }

    #[test]
    fn bounds_are_round_numbers_of_seconds() {
        let bounds: Vec<String> =
            Buckets::LATENCY.bounds.iter().map(|bound| shown(*bound, Buckets::LATENCY.scale).to_string()).collect();
        assert_eq!(bounds[..4], ["0.00001", "0.000025", "0.00005", "0.0001"]);
        assert!(bounds.iter().all(|bound| bound.len() <= 8), "{bounds:?}");
        assert_eq!(bounds.last().map(String::as_str), Some("30"));
    }

    #[test]
    fn threads_lose_nothing() {
        let histogram = Histogram::new(Buckets::LATENCY);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|nth| histogram.observe(Duration::from_micros(nth))));
            }
        });
        assert_eq!(histogram.count(), 40_000);
        assert_eq!(histogram.0.sum.load(Ordering::Relaxed), 4 * 10_000 * 9_999 / 2 * 1_000);
    }
}
