//! Series of one name that differ in their labels.

use crate::histogram::Histogram;
use crate::labels::Labels;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Series of a family. What comes beyond shares one whose labels say `other`. A guess: a scraper takes as many, and
/// whoever has more datanodes asks `levada admin`.
pub const SERIES_MAX: usize = 1_000;

/// The value of each label of the series that stands for all that came too late.
const OTHER: &str = "other";

/// What can be in a family.
pub trait Counted: EncodeMetric + TypedMetric + Clone + fmt::Debug + Send + Sync + 'static {
    /// Nothing happened yet.
    fn is_idle(&self) -> bool;
}

impl Counted for Counter {
    fn is_idle(&self) -> bool {
        self.get() == 0
    }
}

impl Counted for Gauge {
    fn is_idle(&self) -> bool {
        false
    }
}

impl Counted for Histogram {
    fn is_idle(&self) -> bool {
        self.count() == 0
    }
}

/// A cheap handle. A series is shown from its first event on: of a hundred calls that a server knows, most are never
/// made.
pub struct Family<M>(Arc<Inner<M>>);

struct Inner<M> {
    keys: &'static [&'static str],
    make: fn() -> M,
    rows: Mutex<BTreeMap<Labels, M>>,
}

impl<M> Clone for Family<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Family<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("keys", &self.0.keys).finish_non_exhaustive()
    }
}

impl<M: Counted> Family<M> {
    pub(crate) fn new(keys: &'static [&'static str], make: fn() -> M) -> Self {
        Self(Arc::new(Inner { keys, make, rows: Mutex::default() }))
    }

    /// The series with these values of the labels, in the order of their names. Takes a lock: ask once, and keep it.
    pub fn with(&self, values: &[&str]) -> M {
        assert_eq!(values.len(), self.0.keys.len(), "{values:?} for the labels {:?}", self.0.keys);
        let labels = |value: &dyn Fn(usize) -> String| -> Labels {
            self.0.keys.iter().enumerate().map(|(at, key)| (*key, value(at))).collect()
        };
        let mut rows = self.rows();
        let mut wanted = labels(&|at| values[at].to_owned());
        if rows.len() >= SERIES_MAX && !rows.contains_key(&wanted) {
            wanted = labels(&|_| OTHER.to_owned());
        }
        rows.entry(wanted).or_insert_with(self.0.make).clone()
    }

    /// Nothing panics while it is locked.
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Labels, M>> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Counted> EncodeMetric for Family<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let rows = self.rows();
        let mut used = rows.iter().filter(|(_, metric)| !metric.is_idle());
        used.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.rows().values().all(Counted::is_idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_series_share_one() {
        let family = Family::<Counter>::new(&["kind", "disk"], Counter::default);
        (0..SERIES_MAX + 10).for_each(|number| _ = family.with(&["a", &number.to_string()]).inc());
        assert_eq!(family.rows().len(), SERIES_MAX + 1);
        assert_eq!(family.with(&[OTHER, OTHER]).get(), 10);
        assert_eq!(family.with(&["a", "0"]).get(), 1, "those that were there go on");
    }
}
