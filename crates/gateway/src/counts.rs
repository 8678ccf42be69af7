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
use xroot::{ErrorCode, RequestCode, ResponseHeader, ResponseStatus};

const FAMILIES: &[Described] = &[
    gauge("levada_gateway_connections", "Connections that go through the gateway, or ask to", &[]),
    gauge("levada_gateway_root_connections", "Connections of XRootD's clients", &[]),
];

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
    pub root: RootCounts,
}

/// Of the front that speaks XRootD.
#[derive(Clone, Debug)]
pub(crate) struct RootCounts {
    pub accepted: Counter,
    requests: Family<Counter>,
    refusals: Family<Counter>,
    /// Bytes to clients.
    pub sent: Counter,
}

impl RootCounts {
    fn new(registry: &mut Registry) -> Self {
        Self {
            accepted: registry.counter("levada_gateway_root_connections_total", "Connections of XRootD's clients"),
            requests: registry.counters("levada_gateway_root_requests_total", "Requests over XRootD", &["request"]),
            refusals: registry.counters(
                "levada_gateway_root_refused_total",
                "Requests answered by an error",
                &["error"],
            ),
            sent: registry.counter("levada_gateway_root_bytes_total", "Bytes that went to XRootD's clients"),
        }
    }

    /// A request that was answered.
    pub(crate) fn count(&self, code: Option<RequestCode>, refused: Option<ErrorCode>) {
        self.requests.with(&[code.map_or("other", RequestCode::name)]).inc();
        if let Some(refused) = refused {
            self.refusals.with(&[refused.name()]).inc();
        }
    }

    /// The same, of one whose answer is here.
    pub(crate) fn count_answer(&self, code: Option<RequestCode>, bytes: &[u8]) {
        let header = bytes.first_chunk().and_then(ResponseHeader::decode);
        let is_error = header.is_some_and(|header| header.status == ResponseStatus::Error);
        let number = bytes.get(ResponseHeader::LEN + 2..).and_then(|rest| rest.first_chunk());
        let error = number.and_then(|number| ErrorCode::from_number(u16::from_be_bytes(*number)));
        self.count(code, error.filter(|_| is_error));
    }

    /// What XRootD's own tools print of a server.
    pub(crate) fn as_xml(&self, addr: SocketAddr) -> String {
        let (version, accepted, sent) = (env!("CARGO_PKG_VERSION"), self.accepted.get(), self.sent.get());
        format!(
            "<statistics ver=\"{version}\" src=\"{addr}\" pgm=\"levada\"><stats id=\"link\"><tot>{accepted}</tot>\
             <out>{sent}</out></stats></statistics>"
        )
    }
}

impl Counts {
    /// With all that is read at the moment of a scrape; `root_limit` has the connections of XRootD's clients.
    pub(crate) fn new(limit: &Arc<ConnectionLimit>, root_limit: &Arc<ConnectionLimit>) -> (Self, Registry) {
        let mut registry = Registry::default();
        host::process::register(&mut registry, env!("CARGO_PKG_VERSION"), "gateway");
        let limits = [limit, root_limit].map(Arc::downgrade);
        registry.read(FAMILIES, move |readings| {
            let count = |limit: &Weak<ConnectionLimit>| limit.upgrade().map_or(0, |limit| limit.count()) as f64;
            let [tunnels, root] = &limits;
            readings.put("levada_gateway_connections", &[], count(tunnels));
            readings.put("levada_gateway_root_connections", &[], count(root));
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
            root: RootCounts::new(&mut registry),
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
        let (_, registry) = Counts::new(&ConnectionLimit::new(1), &ConnectionLimit::new(1));
        let families = registry.families().iter().map(|family| (family.name, family.kind.to_string(), family.labels));
        testkit::metrics_page::compare(&["Of every server", "Of gateways"], families);
    }
}
