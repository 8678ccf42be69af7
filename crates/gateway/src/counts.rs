//! What a gateway counts, and its page for scrapers: docs/metrics.md has all of it.

use crate::edge::Edge;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use host::version::VERSION;
use http::{Limits, Pages, Server};
use io::ConnectionLimit;
use metrics::{Counter, Described, Family, Readings, Registry, counter, gauge};
use std::io::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use xroot::{ErrorCode, RequestCode, ResponseHeader, ResponseStatus};

const FAMILIES: &[Described] = &[
    gauge("levada_gateway_connections", "Connections that go through the gateway, or ask to", &[]),
    gauge("levada_gateway_root_connections", "Connections of XRootD's clients", &[]),
];

const EDGE_FAMILIES: &[Described] = &[
    gauge("levada_edge_link_up", "Whether the store was reached when it was asked last", &[]),
    counter("levada_edge_link_losses_total", "Times that the store was not reached any more", &[]),
    counter("levada_edge_openings_total", "Files that were opened, by what that went by", &["answer"]),
    counter("levada_edge_read_bytes_total", "Bytes of kept files that readers got, by where they were", &["from"]),
    counter("levada_edge_fetched_bytes_total", "Bytes asked of the store, with what was read ahead", &[]),
    gauge("levada_edge_fetches", "Fetches that run, or wait for room", &["state"]),
    gauge("levada_edge_queue_bytes", "Bytes that are on their way, or wait for it", &["queue"]),
    gauge("levada_edge_queue_bytes_max", "As much as may be on its way, or wait for it", &["queue"]),
    counter("levada_edge_refused_fetches_total", "Fetches for which there was no room to wait", &[]),
    counter("levada_edge_unwritten_extents_total", "Extents that the disk was too slow for", &[]),
    gauge("levada_edge_kept_bytes", "Bytes that are kept", &["place"]),
    gauge("levada_edge_kept_extents", "Extents that are kept", &[]),
    counter("levada_edge_evicted_segments_total", "Segments on the disk that went for others", &[]),
    counter("levada_edge_damaged_extents_total", "Extents on the disk that did not fit their checksums", &[]),
];

fn register_edge(registry: &mut Registry, edge: Weak<Edge>) {
    registry.read(EDGE_FAMILIES, move |readings| {
        if let Some(edge) = edge.upgrade() {
            read_edge(&edge, readings);
        }
    });
}

fn read_edge(edge: &Edge, readings: &mut Readings<'_>) {
    let (tally, usage) = (edge.tally(), edge.usage());
    readings.put("levada_edge_link_up", &[], f64::from(u8::from(edge.is_up())));
    readings.put("levada_edge_link_losses_total", &[], tally.lost_count.get() as f64);
    let openings = [&tally.validated_count, &tally.unvalidated_count, &tally.refused_count];
    for (answer, count) in ["validated", "unvalidated", "refused"].into_iter().zip(openings) {
        readings.put("levada_edge_openings_total", &[answer], count.get() as f64);
    }
    for (from, len) in [("memory", &tally.memory_len), ("disk", &tally.disk_len), ("store", &tally.store_len)] {
        readings.put("levada_edge_read_bytes_total", &[from], len.get() as f64);
    }
    readings.put("levada_edge_fetched_bytes_total", &[], tally.fetched_len.get() as f64);
    let queues = edge.queues();
    let fetches = queues.fetches;
    for (state, count) in [("running", fetches.running_count), ("waiting", fetches.waiting_count)] {
        readings.put("levada_edge_fetches", &[state], count as f64);
    }
    for (queue, len, len_max) in [
        ("fetching", fetches.running_len, fetches.running_len_max),
        ("waiting", fetches.waiting_len, fetches.waiting_len_max),
        ("unwritten", queues.unwritten_len, queues.unwritten_len_max),
    ] {
        readings.put("levada_edge_queue_bytes", &[queue], len as f64);
        readings.put("levada_edge_queue_bytes_max", &[queue], len_max as f64);
    }
    readings.put("levada_edge_refused_fetches_total", &[], tally.turned_away_count.get() as f64);
    readings.put("levada_edge_unwritten_extents_total", &[], tally.unwritten_count.get() as f64);
    readings.put("levada_edge_kept_bytes", &["memory"], usage.memory_len as f64);
    readings.put("levada_edge_kept_bytes", &["disk"], usage.disk_len as f64);
    readings.put("levada_edge_kept_extents", &[], usage.extent_count as f64);
    readings.put("levada_edge_evicted_segments_total", &[], tally.evicted_count.get() as f64);
    readings.put("levada_edge_damaged_extents_total", &[], tally.damaged_count.get() as f64);
}

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
        let (version, accepted, sent) = (VERSION, self.accepted.get(), self.sent.get());
        format!(
            "<statistics ver=\"{version}\" src=\"{addr}\" pgm=\"levada\"><stats id=\"link\"><tot>{accepted}</tot>\
             <out>{sent}</out></stats></statistics>"
        )
    }
}

impl Counts {
    /// With all that is read at the moment of a scrape; `root_limit` has the connections of XRootD's clients.
    pub(crate) fn new(
        limit: &Arc<ConnectionLimit>,
        root_limit: &Arc<ConnectionLimit>,
        edge: Option<&Arc<Edge>>,
    ) -> (Self, Registry) {
        let mut registry = Registry::default();
        host::process::register(&mut registry, "gateway");
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
        if let Some(edge) = edge {
            register_edge(&mut registry, Arc::downgrade(edge));
        }
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
        let (_, mut registry) = Counts::new(&ConnectionLimit::new(1), &ConnectionLimit::new(1), None);
        register_edge(&mut registry, Weak::new());
        let families = registry.families().iter().map(|family| (family.name, family.kind.to_string(), family.labels));
        testkit::metrics_page::compare(&["Of every server", "Of gateways", "Of edges"], families);
    }
}
