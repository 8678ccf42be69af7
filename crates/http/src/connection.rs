//! One connection: its requests, one after the other, within the limits.

use crate::limits::Limits;
use crate::patient::Patient;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use io::{ConnectionLimit, ConnectionPermit, RequestGuard};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tls::{Site, SiteStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const HEADER_COUNT_MAX: usize = 64;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) routes: Router,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    pub(crate) limits: Limits,
    /// Connections are behind TLS.
    pub(crate) site: Option<Arc<Site>>,
    pub(crate) stopped: watch::Receiver<()>,
}

/// How a record of TLS begins that has a handshake in it; HTTP begins with a letter.
const HANDSHAKE: u8 = 0x16;
/// What a client hears that begins without.
const HTTPS_ALONE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    this port speaks HTTPS alone: ask for https://\n";

/// Serves `socket` until its client goes, is too slow, or must make place.
pub(crate) async fn serve(socket: TcpStream, peer: SocketAddr, permit: Arc<ConnectionPermit>, host: Host) {
    let Some(site) = host.site.clone() else { return serve_stream(socket, peer, permit, host).await };
    let opened = tokio::select! {
        opened = tokio::time::timeout(host.limits.head_time_max, open(socket, &site)) => opened,
        () = permit.evicted() => return,
    };
    match opened {
        Ok(Ok(Some(stream))) => serve_stream(stream, peer, permit, host).await,
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_elapsed) => tracing::debug!(%peer, "no TLS handshake in time"),
    }
}

/// `None`: the client went, or speaks plain HTTP and was told.
async fn open(mut socket: TcpStream, site: &Site) -> std::io::Result<Option<SiteStream>> {
    let mut first = [0];
    if socket.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0] == HANDSHAKE {
        return site.accept(socket).await.map(Some);
    }
    // What came is read, or the answer would be lost in a reset.
    let mut scrap = [0; 4096];
    _ = socket.read(&mut scrap).await?;
    socket.write_all(HTTPS_ALONE).await?;
    socket.shutdown().await?;
    Ok(None)
}

async fn serve_stream<S>(socket: S, peer: SocketAddr, permit: Arc<ConnectionPermit>, host: Host)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Host { routes, limits, mut stopped, .. } = host;
    let routes = TowerToHyperService::new(routes);
    let answering = Arc::clone(&permit);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answering = answering.begin_request();
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = routes.call(request);
        async move {
            // Requests that came together are not all answered before anybody else has a turn.
            tokio::task::yield_now().await;
            answer.await.map(|response: Response<Body>| response.map(|body| Held { body, answering }))
        }
    });
    let socket = TokioIo::new(Patient::new(socket, Arc::clone(&permit), limits.stall_time_max));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        .max_buf_size(limits.head_len_max)
        .max_headers(HEADER_COUNT_MAX)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    let mut stopping = false;
    loop {
        tokio::select! {
            // How it ended, its client knows.
            _ = connection.as_mut() => return,
            () = permit.evicted() => return tracing::debug!(%peer, "idle connection closed to make room for another"),
            _ = stopped.changed(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// An answer's body, and that it is not at its end.
struct Held {
    body: Body,
    #[expect(dead_code, reason = "dropped with the body")]
    answering: RequestGuard,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
