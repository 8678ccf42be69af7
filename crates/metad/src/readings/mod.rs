//! Metrics that are read when `/metrics` is scraped, beside those that were counted ([`crate::telemetry`]).

mod certificate;
mod leader;
#[cfg(test)]
mod metrics_page_tests;
mod server;

use crate::leadership::Leadership;
use metrics::Registry;
use std::sync::Arc;
use tls::Credentials;

/// Adds what is read of the server at the moment of a scrape.
pub(crate) fn register(registry: &mut Registry, leadership: &Arc<Leadership>, own: Option<Arc<Credentials>>) {
    host::process::register(registry, "metadata");
    server::register(registry, leadership);
    leader::register(registry, leadership);
    certificate::register(registry, own);
}
