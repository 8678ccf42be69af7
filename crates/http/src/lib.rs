//! The HTTP front: what a person with a browser, a probe or a scraper asks of a running store.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the status as a short text |
//! | `/health` | 200 `ok` as long as the process serves |
//! | `/status` | the status as JSON |
//! | `/metrics` | every number of the status, in Prometheus' text form |
//!
//! Promise: nothing here changes the store, and one status is all that a request costs it.

mod metrics;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Tells the status of the store at this moment: a JSON object of numbers, texts and objects.
pub type StatusSource = Arc<dyn Fn() -> Value + Send + Sync>;

/// A running server; dropping it stops it too.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: watch::Sender<()>,
}

impl Server {
    /// Listens on `addr`; port 0 takes a free one.
    pub async fn bind(addr: SocketAddr, status: StatusSource) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let (stop, mut stopped) = watch::channel(());
        let routes = Router::new()
            .route("/", get(overview))
            .route("/health", get(|| async { "ok\n" }))
            .route("/status", get(|State(status): State<StatusSource>| async move { Json(status()) }))
            .route("/metrics", get(scrape))
            .with_state(status);
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

async fn overview(State(status): State<StatusSource>) -> String {
    format!("Levada\n\n{:#}\n\nMore: /status (JSON), /metrics (Prometheus), /health\n", status())
}

async fn scrape(State(status): State<StatusSource>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::render(&status()))
}
