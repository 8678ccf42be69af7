//! What each row of the door's table has cost, and how often it failed.

use hdfs::Exception;
use metrics::{Counter, Family, Histogram, Registry};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The place of a row in the door's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowNumber(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Calls {
    /// By [`RowNumber`].
    rows: Vec<Row>,
    errors: Family<Counter>,
}

#[derive(Debug)]
struct Row {
    protocol: &'static str,
    method: &'static str,
    times: Histogram,
    /// By their class. There are as many classes as the program names; a call meets a few of them.
    errors: Mutex<Vec<(&'static str, Counter)>>,
}

impl Calls {
    pub(super) fn new(registry: &mut Registry, rows: impl Iterator<Item = (&'static str, &'static str)>) -> Self {
        let times = registry.latencies(
            "levada_rpc_call_duration_seconds",
            "Time from a call's arrival at the door to its answer, the refused ones included",
            &["protocol", "method"],
        );
        let errors = registry.counters(
            "levada_rpc_call_errors_total",
            "Calls answered with an exception, by its class",
            &["protocol", "method", "error"],
        );
        let rows = rows.map(|(protocol, method)| {
            let protocol = short(protocol);
            Row { protocol, method, times: times.with(&[protocol, method]), errors: Mutex::default() }
        });
        Self { rows: rows.collect(), errors }
    }

    /// A call was answered.
    pub(crate) fn ended(&self, row: RowNumber, time: Duration, error: Option<&Exception>) {
        let Some(row) = self.rows.get(row.0) else { return };
        row.times.observe(time);
        let Some(Exception { class, .. }) = error else { return };
        let mut errors = row.errors.lock().unwrap_or_else(PoisonError::into_inner);
        match errors.iter().find(|(known, _)| known == class) {
            Some((_, counter)) => _ = counter.inc(),
            None => {
                let counter = self.errors.with(&[row.protocol, row.method, short(class)]);
                counter.inc();
                errors.push((class, counter));
            }
        }
    }
}

/// Without the package.
pub(crate) fn short(name: &'static str) -> &'static str {
    name.rsplit(['.', '$']).next().unwrap_or(name)
}
