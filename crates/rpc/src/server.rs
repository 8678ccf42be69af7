//! The server: accepts connections, up to a limit, and ends them all in the end.

use crate::budget::{Budget, Usage};
use crate::call::Service;
use crate::connection;
use crate::exchange::Steps;
use crate::expected::ExpectedLens;
use crate::host::{Host, Phase};
use crate::lane::Lane;
use crate::options::{Authentication, ServerOptions};
use crate::tls_opening::Handshakes;
use ::io::socket::SocketOptions;
use ::io::task::Owned;
use ::io::{ConnectionLimit, LogLimit};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{mpsc, watch};

/// How `held_len_max` is divided: requests as they come, requests while they are decoded, answers. Guesses: what is
/// decoded is the largest, and a single long request must fit.
const REQUESTS_PART: usize = 4;
const DECODED_PART: usize = 2;
const ANSWERS_PART: usize = 4;
const _: () = assert!(4 / REQUESTS_PART + 4 / DECODED_PART + 4 / ANSWERS_PART == 4, "together they are the whole");

/// Tells what a server holds now; nothing once it has ended.
#[derive(Clone)]
pub struct UsageReader(Arc<dyn Fn() -> Vec<Usage> + Send + Sync>);

impl UsageReader {
    pub fn read(&self) -> Vec<Usage> {
        (self.0)()
    }
}

impl fmt::Debug for UsageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read()).finish()
    }
}

/// A running server. Dropping it cuts all connections; see also [`Server::shutdown`].
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    accepting: Owned<()>,
    phase: watch::Sender<Phase>,
    /// Every connection holds the other end.
    gone: mpsc::Receiver<()>,
    drain_time_max: Duration,
    usage: UsageReader,
}

impl Server {
    pub async fn bind<S: Service>(
        addr: impl ToSocketAddrs,
        options: ServerOptions,
        service: Arc<S>,
    ) -> io::Result<Self> {
        assert!(options.calls_per_connection_max > 0 && options.connections_max > 0);
        let options = options.within_memory();
        let Authentication { offers, acceptor } = &options.authentication;
        assert!(offers.kerberos.is_none() || acceptor.is_some(), "Kerberos is offered, and nobody takes tickets");
        let listener = TcpListener::bind(addr).await?;
        ::io::socket::apply(&listener, &SocketOptions::default())?;
        let (phase, watching) = watch::channel(Phase::Serving);
        let (alive, gone) = mpsc::channel(1);
        let drain_time_max = options.drain_time_max;
        let host = Arc::new(Host {
            service,
            usual: Lane::new(&options, options.held_len_max / REQUESTS_PART, options.held_len_max / DECODED_PART),
            urgent: Lane::new(&options, options.urgent_len_max, options.urgent_decoded_len_max),
            answers: Budget::new(options.held_len_max / ANSWERS_PART),
            expected: ExpectedLens::default(),
            connection_limit: ConnectionLimit::new(options.connections_max),
            refusals: LogLimit::default(),
            steps: Steps::default(),
            strangers: LogLimit::default(),
            handshakes: Handshakes::new(options.long_handshakes_max()),
            options,
        });
        let addr = listener.local_addr()?;
        let weak = Arc::downgrade(&host);
        let usage = UsageReader(Arc::new(move || weak.upgrade().map_or_else(Vec::new, |host| host.usage())));
        let accepting = ::io::task::spawn_owned("rpc accept", accept(listener, host, watching, alive));
        Ok(Self { addr, accepting, phase, gone, drain_time_max, usage })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// What holds its memory, whenever it is asked.
    pub fn usage(&self) -> UsageReader {
        self.usage.clone()
    }

    /// Takes no further connection and no further request, answers what is under way, within a time limit.
    pub async fn shutdown(mut self) {
        self.accepting.abort();
        self.phase.send_replace(Phase::Draining);
        // Nobody ever sends: this ends when the last connection has.
        let drained = tokio::time::timeout(self.drain_time_max, self.gone.recv()).await;
        if drained.is_err() {
            tracing::debug!(addr = %self.addr, "rpc connections are cut: their calls take too long");
            self.phase.send_replace(Phase::Cutting);
            self.gone.recv().await;
        }
    }
}

async fn accept<S: Service>(
    listener: TcpListener,
    host: Arc<Host<S>>,
    phase: watch::Receiver<Phase>,
    alive: mpsc::Sender<()>,
) {
    loop {
        let (socket, peer) = ::io::accepted(|| listener.accept()).await;
        take(socket, peer, &host, &phase, &alive);
    }
}

fn take<S: Service>(
    socket: TcpStream,
    peer: SocketAddr,
    host: &Arc<Host<S>>,
    phase: &watch::Receiver<Phase>,
    alive: &mpsc::Sender<()>,
) {
    let Some(connection_permit) = host.connection_limit.admit() else {
        if let Some(passed_over) = host.refusals.due() {
            let max = host.options.connections_max;
            tracing::warn!(%peer, max, passed_over, "a connection is refused: all others are being answered");
        }
        return;
    };
    let (host, phase, alive) = (host.clone(), phase.clone(), alive.clone());
    ::io::task::spawn("rpc connection", async move {
        let _alive = alive;
        connection::serve(socket, peer, connection_permit, host, phase).await;
    });
}
