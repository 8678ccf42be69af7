//! What is not counted where it happens, but read when a scraper asks: lengths, ages, what others count.

use crate::described::{Described, Kind};
use crate::family::SERIES_MAX;
use crate::labels::Labels;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;

/// Describes a gauge that is read.
pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Described {
    Described { name, help, kind: Kind::Gauge, labels }
}

/// Describes a counter that is read: what it is read from never falls while the server runs.
pub const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Described {
    Described { name, help, kind: Kind::Counter, labels }
}

/// What was read at one moment.
#[derive(Debug)]
pub struct Readings<'a> {
    families: &'a [Described],
    values: BTreeMap<&'static str, Vec<(Labels, f64)>>,
}

impl Readings<'_> {
    /// Puts one value. What is not put is not shown, nor is what comes after the first [`SERIES_MAX`] of a name.
    pub fn put(&mut self, name: &'static str, labels: &[&str], value: f64) {
        let Some(family) = self.families.iter().find(|family| family.name == name) else {
            debug_assert!(false, "{name} is read and was not declared");
            return;
        };
        debug_assert_eq!(family.labels.len(), labels.len(), "{name}");
        let rows = self.values.entry(name).or_default();
        if rows.len() < SERIES_MAX {
            let labels = family.labels.iter().zip(labels).map(|(key, value)| (*key, (*value).to_owned()));
            rows.push((labels.collect(), value));
        }
    }
}

/// Families, and who reads them.
pub(crate) struct Reader {
    pub(crate) families: Vec<Described>,
    pub(crate) read: Box<dyn Fn(&mut Readings<'_>) + Send + Sync>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Collector for Reader {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut readings = Readings { families: &self.families, values: BTreeMap::new() };
        (self.read)(&mut readings);
        for family in &self.families {
            let Some(rows) = readings.values.get(family.name) else { continue };
            let help = format!("{}.", family.help);
            let kind = family.kind.as_openmetrics();
            let mut series = encoder.encode_descriptor(family.bare_name(), &help, None, kind)?;
            match (family.labels, &rows[..]) {
                ([], [(_, value), ..]) => encode(family.kind, *value, series)?,
                _ => {
                    for (labels, value) in rows {
                        encode(family.kind, *value, series.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode(kind: Kind, value: f64, encoder: MetricEncoder<'_>) -> fmt::Result {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge | Kind::Histogram => ConstGauge::new(value).encode(encoder),
    }
}
