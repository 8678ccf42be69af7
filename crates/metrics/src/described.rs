//! What is said of a family of metrics.

use prometheus_client::metrics::MetricType;
use std::fmt;

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, from the start of the server on.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Counts in ranges; `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    pub(crate) fn as_openmetrics(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_openmetrics().as_str())
    }
}

/// What a family is called, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// As it is shown; that of a counter ends with `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

pub(crate) const COUNTER_ENDING: &str = "_total";

impl Described {
    /// Without what OpenMetrics appends.
    pub(crate) fn bare_name(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix(COUNTER_ENDING).unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }
}
