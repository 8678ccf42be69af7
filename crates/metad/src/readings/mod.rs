//! Metrics that are read when `/metrics` is scraped, beside those that were counted ([`crate::telemetry`]).

mod leader;
#[cfg(test)]
mod metrics_page_tests;
mod server;

use crate::leadership::Leadership;
use metrics::Registry;
use std::sync::Arc;

/// Adds what is read of the server at the moment of a scrape.
pub(crate) fn register(registry: &mut Registry, leadership: &Arc<Leadership>) {
    host::process::register(registry, env!("CARGO_PKG_VERSION"), "metadata");
    server::register(registry, leadership);
    leader::register(registry, leadership);
}
