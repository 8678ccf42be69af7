//! What a gateway counts, and its page for scrapers: docs/metrics.md has all of it.

use crate::Error;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Limits, Pages, Server};
use io::ConnectionLimit;
use metrics::{Counter, Described, Family, Registry, gauge};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

const FAMILIES: &[Described] =
    &[gauge("levada_gateway_connections", "Connections that go through the gateway, or ask to", &[])];

/// Shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub accepted: Counter,
    pub refused: Counter,
    /// Bytes from clients.
    pub up: Counter,
    /// Bytes to clients.
    pub down: Counter,
    responses: Family<Counter>,
}

impl Counts {
    /// With all that is read at the moment of a scrape.
    pub(crate) fn new(limit: &Arc<ConnectionLimit>) -> (Self, Registry) {
        let mut registry = Registry::default();
        host::process::register(&mut registry, env!("CARGO_PKG_VERSION"), "gateway");
        let limit: Weak<ConnectionLimit> = Arc::downgrade(limit);
        registry.read(FAMILIES, move |readings| {
            let count = limit.upgrade().map_or(0, |limit| limit.count());
            readings.put("levada_gateway_connections", &[], count as f64);
        });
        let bytes = registry.counters(
            "levada_gateway_bytes_total",
            "Bytes that went through the gateway; up is from clients",
            &["direction"],
        );
        let counts = Self {
            accepted: registry.counter("levada_gateway_connections_total", "Connections that were accepted"),
            refused: registry.counter(
                "levada_gateway_refused_total",
                "Connections that were not let through: to no server of the store, or by no preface",
            ),
            up: bytes.with(&["up"]),
            down: bytes.with(&["down"]),
            responses: registry.counters("levada_gateway_http_responses_total", "Answers over HTTP", &["status"]),
        };
        (counts, registry)
    }
}

/// Counts an answer as it begins.
pub(crate) async fn count_response(State(counts): State<Counts>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    counts.responses.with(&[response.status().as_str()]).inc();
    response
}

/// Serves `/metrics`, `/health` and a short `/status`.
pub(crate) async fn serve(addr: SocketAddr, registry: Registry, limit: Arc<ConnectionLimit>) -> Result<Server, Error> {
    let status = Arc::new(move || serde_json::json!({ "role": "gateway", "connections": limit.count() }));
    let metrics = Arc::new(move |format| registry.render(format));
    Server::bind(addr, Limits::default(), Pages { status, metrics, check: None, proof: None }, None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_a_gateway_shows() {
        let (_, registry) = Counts::new(&ConnectionLimit::new(1));
        let families = registry.families().iter().map(|family| (family.name, family.kind.to_string(), family.labels));
        testkit::metrics_page::compare(&["Of every server", "Of gateways"], families);
    }
}
