//! The HTTP front: what a person with a browser, a probe or a scraper asks of a running store.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the status as a short text |
//! | `/health` | 200 `ok` as long as the process serves |
//! | `/status` | the status as JSON |
//! | `/fsck` | a check of the tree, as `hdfs fsck` asks for it; in pieces, as it goes on |
//! | `/metrics` | every number of the status, in Prometheus' text form |
//!
//! Promise: nothing here changes the store. A request costs it one status; a check of the tree costs more, so few
//! run at a time.

mod metrics;
mod query;

use axum::body::Body;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Tells the status of the store at this moment: a JSON object of numbers, texts and objects.
pub type StatusSource = Arc<dyn Fn() -> Value + Send + Sync>;

/// Begins a check of the tree: what the query says, and where it comes from. It ends when the channel does.
/// `None`: too many run already.
pub type CheckSource = Arc<dyn Fn(Vec<(String, String)>, IpAddr) -> Option<mpsc::Receiver<String>> + Send + Sync>;

#[derive(Clone)]
struct Sources {
    status: StatusSource,
    check: CheckSource,
}

/// A running server; dropping it stops it too.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: watch::Sender<()>,
}

impl Server {
    /// Listens on `addr`; port 0 takes a free one.
    pub async fn bind(addr: SocketAddr, status: StatusSource, check: CheckSource) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let (stop, mut stopped) = watch::channel(());
        let routes = Router::new()
            .route("/", get(overview))
            .route("/health", get(|| async { "ok\n" }))
            .route("/status", get(|State(sources): State<Sources>| async move { Json((sources.status)()) }))
            .route("/metrics", get(scrape))
            .route("/fsck", get(check_tree))
            .with_state(Sources { status, check })
            .into_make_service_with_connect_info::<SocketAddr>();
        let serve = axum::serve(listener, routes).with_graceful_shutdown(async move {
            let _ = stopped.changed().await;
        });
        io::task::spawn("http", async move {
            // A listener that broke is told by the requests that fail; the store itself goes on.
            let _ = serve.await;
        });
        Ok(Self { addr, stop })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn shutdown(&self) {
        let _ = self.stop.send(());
    }
}

async fn overview(State(Sources { status, .. }): State<Sources>) -> String {
    format!("Levada\n\n{:#}\n\nMore: /status (JSON), /metrics (Prometheus), /health\n", status())
}

async fn check_tree(
    State(sources): State<Sources>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(report) = (sources.check)(query::pairs(query.as_deref().unwrap_or_default()), peer.ip()) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "other checks are running; ask again later\n").into_response();
    };
    let pieces = futures_util::stream::unfold(report, |mut report| async move {
        let piece = report.recv().await?;
        Some((Ok::<_, Infallible>(piece), report))
    });
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(pieces)).into_response()
}

async fn scrape(State(Sources { status, .. }): State<Sources>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::render(&status()))
}
