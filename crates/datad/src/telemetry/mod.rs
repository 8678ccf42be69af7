//! What this datanode counts, and what a scraper of `/metrics` reads of it: docs/metrics.md has all of it.

mod node;
mod operations;
#[cfg(test)]
mod page;

pub(crate) use operations::{Operation, Operations};

use crate::ipc;
use crate::node::Node;
use metrics::{Counter, Family, Histogram, Registry};
use std::sync::Arc;
use std::time::Duration;

/// Handles of what is counted, made once.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) operations: Operations,
    calls: Vec<Histogram>,
    errors: Family<Counter>,
}

impl Telemetry {
    pub(crate) fn new(registry: &mut Registry) -> Self {
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
        let calls = ipc::calls().map(|(protocol, method)| times.with(&[short(protocol), method])).collect();
        Self { operations: Operations::new(registry), calls, errors }
    }

    /// A call of RPC was answered; `row` is its place in [`ipc::calls`].
    pub(crate) fn call_ended(&self, row: usize, time: Duration, error: Option<&'static str>) {
        self.calls[row].observe(time);
        if let Some(class) = error {
            let (protocol, method) = ipc::calls().nth(row).expect("a row that was called");
            self.errors.with(&[short(protocol), method, short(class)]).inc();
        }
    }
}

/// Shown nowhere.
impl Default for Telemetry {
    fn default() -> Self {
        Self::new(&mut Registry::default())
    }
}

/// Adds what is read of the datanode at the moment of a scrape.
pub(crate) fn read(registry: &mut Registry, node: &Arc<Node>) {
    host::process::register(registry, env!("CARGO_PKG_VERSION"), "datanode");
    node::register(registry, node);
}

/// Without the package.
fn short(name: &'static str) -> &'static str {
    name.rsplit(['.', '$']).next().unwrap_or(name)
}
