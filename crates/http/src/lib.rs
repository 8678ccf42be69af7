//! The HTTP front: what a person with a browser, a probe or a scraper asks of a running store.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the status as a short text |
//! | `/health` | 200 `ok` as long as the process serves |
//! | `/status` | the status as JSON |
//! | `/jmx` | the status by the names of Hadoop's beans, for monitors of HDFS; `qry` names some |
//! | `/fsck` | a check of the tree, as `hdfs fsck` asks for it; in pieces, as it goes on. Metadata servers alone |
//! | `/metrics` | what the server counts, for Prometheus: as OpenMetrics or in the older text form, by `Accept` |
//!
//! `/fsck` asks who is asking, where the store does ([`ProofSource`]); the others are for everybody.
//!
//! Promise: nothing here changes the store. Requests of a moment share one status; a check of the tree costs more, so
//! few run at a time. Connections are few and each has its time ([`Limits`]): who is slow loses the own one, and who
//! opens thousands pushes out only those that wait for their client, longest first.

mod connection;
mod gate;
mod jmx;
mod limits;
mod pages;
mod patient;
mod recent;

pub use gate::{ProofSource, Proven};
pub use limits::Limits;
pub use pages::{Asker, CheckSource, MetricsSource, Pages, StatusSource};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Extension, RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use connection::Host;
use gate::{Gate, Visitor};
use io::ConnectionLimit;
use io::task::Owned;
use metrics::Format;
use recent::Recent;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::Site;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Longest head where a ticket may come along: Active Directory has the groups of a user in it. Hadoop:
/// `hadoop.http.max.request.header.size`.
const HEAD_WITH_PROOF_LEN_MAX: usize = 64 << 10;

#[derive(Clone)]
struct Sources {
    recent: Arc<Recent>,
    check: Option<CheckSource>,
}

/// A running server; dropping it stops it too.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: watch::Sender<()>,
    _follower: Option<Owned<()>>,
}

impl Server {
    /// Listens on `addr`; port 0 takes a free one. `site`: for HTTPS, and nothing else.
    pub async fn bind(
        addr: SocketAddr,
        limits: Limits,
        pages: Pages,
        site: Option<Arc<Site>>,
    ) -> std::io::Result<Self> {
        let check = pages.check.clone();
        let limits = match pages.proof {
            Some(_) => Limits { head_len_max: limits.head_len_max.max(HEAD_WITH_PROOF_LEN_MAX), ..limits },
            None => limits,
        };
        let gate = from_fn_with_state(Gate::new(pages.proof.clone()), gate::pass);
        let routes = Router::new()
            .route("/", get(overview))
            .route("/health", get(|| async { "ok\n" }))
            .route("/status", get(as_json))
            .route("/metrics", get(scrape))
            .route("/jmx", get(as_beans))
            .route("/fsck", get(check_tree).options(|| async { StatusCode::OK }).layer(gate))
            .with_state(Sources { recent: Arc::new(Recent::new(pages)), check });
        Self::serve(addr, limits, routes, site).await
    }

    /// The same, for pages of somebody else's.
    pub async fn serve(
        addr: SocketAddr,
        limits: Limits,
        routes: Router,
        site: Option<Arc<Site>>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        io::socket::apply(&listener, &io::socket::SocketOptions::default())?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let connection_limit = ConnectionLimit::new(limits.connection_count_max);
        let follower = site.clone().map(|site| io::task::spawn_owned("certificate", site.follow()));
        io::task::spawn("http", accept(listener, Host { routes, connection_limit, limits, site, stopped }));
        Ok(Self { addr, stop, _follower: follower })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn shutdown(&self) {
        let _ = self.stop.send(());
    }
}

/// Takes connections until the server stops.
async fn accept(listener: TcpListener, mut host: Host) {
    loop {
        let (socket, peer) = tokio::select! {
            accepted = io::accepted(|| listener.accept()) => accepted,
            _ = host.stopped.changed() => return,
        };
        match host.connection_limit.admit() {
            Some(permit) => {
                io::task::spawn("http connection", connection::serve(socket, peer, permit, host.clone()));
            }
            None => tracing::debug!(%peer, "a connection is refused: all others are being answered"),
        }
    }
}

async fn overview(State(Sources { recent, .. }): State<Sources>) -> String {
    recent.status().text.clone()
}

async fn as_json(State(Sources { recent, .. }): State<Sources>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], recent.status().json.clone())
}

async fn as_beans(State(Sources { recent, .. }): State<Sources>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let query = query.unwrap_or_default();
    let name = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "qry").map(|(_, name)| name);
    let page = jmx::page(&recent.status().value, name.as_deref());
    ([(CONTENT_TYPE, "application/json")], page.to_string())
}

async fn check_tree(
    State(sources): State<Sources>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(Visitor(name)): Extension<Visitor>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(check) = sources.check else {
        return (StatusCode::NOT_FOUND, "metadata servers check the tree; ask one of them\n").into_response();
    };
    let query = query.unwrap_or_default();
    let pairs = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let Some(report) = check(pairs, Asker { address: peer.ip(), name }) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "other checks are running; ask again later\n").into_response();
    };
    let pieces = futures_util::stream::unfold(report, |mut report| async move {
        let piece = report.recv().await?;
        Some((Ok::<_, Infallible>(piece), report))
    });
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(pieces)).into_response()
}

async fn scrape(State(Sources { recent, .. }): State<Sources>, headers: HeaderMap) -> impl IntoResponse {
    let format = Format::of_accept(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
    ([(CONTENT_TYPE, format.content_type())], recent.metrics(format).to_string())
}
