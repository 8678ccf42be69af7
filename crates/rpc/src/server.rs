//! The server: accepts connections, up to a limit, and ends them all in the end.

use crate::budget::Budget;
use crate::expected::ExpectedLens;
use crate::lane::Lane;
use crate::{Service, connection};
use ::io::socket::SocketOptions;
use ::io::task::Owned;
use ::io::{Crowd, LogLimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{mpsc, watch};

/// Longest request of a server that says nothing else. Hadoop takes 128 MiB; a page of a node's catalogue, the longest
/// we know, has about 100 KB. Messages between the servers of a group must stay below it.
pub const FRAME_LEN_MAX: u32 = 4 << 20;

/// Limits of one server. Every figure is a guess unless it says otherwise.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Longest request.
    pub frame_len_max: u32,
    /// Calls of one connection under way, their answers not yet taken. At the limit the connection is not read.
    pub calls_per_connection_max: usize,
    /// When there are more, the one whose client was waited for longest is closed, and a new one if all have calls
    /// under way.
    pub connections_max: usize,
    /// Bytes of requests and answers of all connections. At the limit no further request is read, and no call started.
    pub held_len_max: usize,
    /// Connections that were opened for this protocol have memory of their own, `urgent_len_max` bytes: what the
    /// servers of a group say to each other must not wait for clients' requests, or too much of these would cost them
    /// their leader. They are accepted from those that [`Service::admit_urgent`] names, and calls of this protocol come
    /// over them alone.
    pub urgent_protocol: Option<&'static str>,
    pub urgent_len_max: usize,
    /// What long urgent requests may take together when they are decoded.
    pub urgent_decoded_len_max: usize,
    /// A long request that is not let in to be decoded for so long ends its connection: it holds memory meanwhile.
    pub decoded_wait_max: Duration,
    /// Bytes of answers that one connection has not taken, and of those its calls under way are expected to need. At
    /// the limit no further call of it starts; one call may always be under way.
    pub answers_len_per_connection_max: usize,
    /// Until the context has come.
    pub opening_time_max: Duration,
    /// From a frame's length to its end, and for a client to take an answer; a second more for each
    /// `len_per_second_min` bytes. Who is slower is cut off.
    pub frame_time_max: Duration,
    pub answer_time_max: Duration,
    pub len_per_second_min: usize,
    /// While memory is short, who moves fewer bytes than `len_per_second_min` for so long is cut off.
    pub stall_time_max: Duration,
    /// A silent connection is closed after this, if there are more than `idle_connections_max` of all kinds.
    /// Hadoop: 20 s, and 4000.
    pub idle_time_max: Duration,
    pub idle_connections_max: usize,
    /// For calls under way when the server shuts down.
    pub drain_time_max: Duration,
}

/// How `held_len_max` is divided: requests as they come, requests while they are decoded, answers. Guesses: what is
/// decoded is the largest, and a single long request must fit.
const REQUESTS_PART: usize = 4;
const DECODED_PART: usize = 2;
const ANSWERS_PART: usize = 4;
const _: () = assert!(4 / REQUESTS_PART + 4 / DECODED_PART + 4 / ANSWERS_PART == 4, "together they are the whole");

/// Guesses where nothing else is said here or at the field.
impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            frame_len_max: FRAME_LEN_MAX,
            calls_per_connection_max: 100,
            connections_max: 10_000,
            held_len_max: 256 << 20,
            urgent_protocol: None,
            urgent_len_max: 16 << 20,
            urgent_decoded_len_max: 64 << 20,
            decoded_wait_max: Duration::from_secs(20),
            answers_len_per_connection_max: 1 << 20,
            opening_time_max: Duration::from_secs(20),
            frame_time_max: Duration::from_secs(60),
            answer_time_max: Duration::from_secs(60),
            len_per_second_min: 64 << 10,
            stall_time_max: Duration::from_secs(1),
            idle_time_max: Duration::from_secs(20),
            idle_connections_max: 4000,
            drain_time_max: Duration::from_secs(3),
        }
    }
}

/// How the server stands to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// No further request is read; those under way are answered.
    Draining,
    Cutting,
}

/// What all connections of a server share.
pub(crate) struct Host<S> {
    pub(crate) service: Arc<S>,
    pub(crate) options: ServerOptions,
    pub(crate) usual: Lane,
    /// For requests of the urgent protocol.
    pub(crate) urgent: Lane,
    /// For answers: those that are expected, and those that are not taken yet.
    pub(crate) answers: Arc<Budget>,
    pub(crate) expected: ExpectedLens,
    pub(crate) crowd: Arc<Crowd>,
    /// Connections that are refused.
    refusals: LogLimit,
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
}

impl Server {
    pub async fn bind<S: Service>(
        addr: impl ToSocketAddrs,
        options: ServerOptions,
        service: Arc<S>,
    ) -> io::Result<Self> {
        assert!(options.calls_per_connection_max > 0 && options.connections_max > 0);
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
            crowd: Crowd::new(options.connections_max),
            refusals: LogLimit::default(),
            options,
        });
        let addr = listener.local_addr()?;
        let accepting = ::io::task::spawn_owned("rpc accept", accept(listener, host, watching, alive));
        Ok(Self { addr, accepting, phase, gone, drain_time_max })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.addr
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
    /// After an error that is not the connection's own, such as too many open files: others may go meanwhile.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => take(socket, peer, &host, &phase, &alive),
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn take<S: Service>(
    socket: TcpStream,
    peer: SocketAddr,
    host: &Arc<Host<S>>,
    phase: &watch::Receiver<Phase>,
    alive: &mpsc::Sender<()>,
) {
    let Some(seat) = host.crowd.enter() else {
        if let Some(passed_over) = host.refusals.due() {
            let max = host.options.connections_max;
            tracing::warn!(%peer, max, passed_over, "a connection is refused: all others are being answered");
        }
        return;
    };
    let (host, phase, alive) = (host.clone(), phase.clone(), alive.clone());
    ::io::task::spawn("rpc connection", async move {
        let _alive = alive;
        connection::serve(socket, peer, seat, host, phase).await;
    });
}
