//! A datanode: the replicas of some disks, served to clients and to other datanodes.
//!
//! ```text
//! transfer port ── data_port ── read ──▶ sendfile                     tasks
//!              (connection) ├── write ─▶ xfer::write::Relay, disks::Writer   a thread each
//!                           ├── small ─▶ Volume::put_batch           a thread a disk, and links to other nodes
//!                           ├── checksum
//!                           └── transfer (a copy for a client's chain)
//! Unix socket ──── the same, and descriptors ▶ the replica's own files, read by a client on this machine
//! RPC port ─────── ipc: visible length; recovery, for the metadata server
//! metad ────────── register, catalogue, heartbeats; its orders ──▶ maintenance
//!
//! admission: each operation of both ports, before it is begun         replicas: what they are done with
//! ```
//!
//! Promise: what is acknowledged is here, on all nodes below, and told to the metadata server; what is served was
//! acknowledged or stored with the checksums that go along. A client can break its own connection and nothing else: all
//! it sends is bounded before memory is taken, and every wait has a limit (see [`Limits`]).

mod admission;
mod block;
mod budget;
mod certificate;
mod checksum;
mod compare;
mod config;
mod connection;
mod contents;
mod copier;
mod copies;
mod data_port;
mod data_service;
mod deleter;
mod descriptors;
mod disk_balance;
mod disk_identity;
mod error;
mod fetch;
mod fronts;
mod gauges;
mod handshake;
mod heartbeat_progress;
mod ipc;
mod job;
mod layouts;
mod local_socket;
mod log_limits;
mod maintenance;
mod metad;
#[cfg(test)]
mod metrics_page_tests;
mod node;
mod node_lock;
mod operations;
mod outside;
mod outward;
mod owner_recorder;
mod ranges;
mod rate_limit;
mod read;
mod read_buffer;
mod replicas;
mod scrub;
mod slots;
mod small;
mod socket;
mod status;
mod stop;
mod transfer;
mod write;

pub use certificate::{JoinError, Joined, join, joined};
pub use config::{Config, Durability, Limits};
pub use disk_identity::node_of;
pub use error::StartError;

use io::{Clock, SystemClock};
use local_socket::{Listener, LocalSocket};
use metrics::{Registry, RpcCalls};
use node::Node;
use security::node_name::Expected;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::Credentials;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use types::NodeId;

/// A running datanode. Dropping it stops it as well, but does not wait.
#[derive(Debug)]
pub struct Datad {
    node: Arc<Node>,
    stop: StopOnDrop,
    xfer_addr: SocketAddr,
    ipc: rpc::Server,
    ipc_addr: SocketAddr,
    leader: Arc<metad::Leader>,
    away_ms: u64,
    registered: watch::Receiver<bool>,
    failed: watch::Receiver<Option<String>>,
    tasks: Vec<io::task::Owned<()>>,
    metrics: Arc<Registry>,
}

/// How long a shutdown waits for transfers to end. They are told to; what is cut off, clients recover.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);
const SHUTDOWN_LOOK: Duration = Duration::from_millis(5);
/// How long a shutdown waits until the metadata server has written down that the node comes back. A guess: a sync or
/// two; where the server ends as well there is nobody to tell.
const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// Opens the disks and serves them. Returns as soon as reads are served; see [`Datad::registered`].
pub async fn start(config: Config) -> Result<Datad, StartError> {
    types::checksum::self_test().map_err(StartError::Checksum)?;
    let durability = match config.durability {
        Durability::Synced => container::Durability::Synced,
        Durability::Replicated => container::Durability::Replicated,
    };
    let dirs = config.dirs()?;
    let mut metrics = Registry::default();
    let meters = container::Meters::new(&mut metrics);
    let credentials = certificate::open(&config).await?;
    let id = credentials.as_ref().map(|(id, _)| *id);
    let credentials = credentials.map(|(_, credentials)| credentials);
    let reserved_len = config.free_reserve_len;
    let options = container::Options { durability, meters, node: id, reserved_len, ..container::Options::default() };
    let disks = io::task::blocking(move || disks::open(&dirs, &options)).await?;
    let (xfer, ipc) = (config.xfer_addr, config.ipc_addr);
    let node = Arc::new(Node::new(&config, disks, &mut metrics)?);
    gauges::register(&mut metrics, &node, credentials.clone());
    let listener = TcpListener::bind(xfer).await.map_err(|source| StartError::Bind { addr: xfer, source })?;
    let xfer_addr = listener.local_addr()?;
    let local_socket = config.domain_socket.as_deref().map(|path| LocalSocket::bind(path, xfer_addr.port()));
    let local_socket = local_socket.transpose()?;
    let (metads, certificates) = (config.metads(), config.node_certificates.clone());
    let servers = metads.clone();
    let leader = Arc::new(metad::Leader::new(Arc::clone(&node.replicas.node)));
    node.port.layouts.ask_by(Arc::clone(&leader));
    let Node { replicas, admission, maintenance, port, .. } = &*node;
    let service = Arc::new(ipc::Ipc::new(
        Arc::clone(replicas),
        Arc::clone(&maintenance.contents),
        Arc::clone(admission),
        RpcCalls::new(&mut metrics, ipc::calls()),
        (config.clone(), leader.known()),
    ));
    let options = rpc::ServerOptions { credentials: credentials.clone(), ..ipc::options() };
    let ipc =
        rpc::Server::bind(ipc, options, service).await.map_err(|source| StartError::Bind { addr: ipc, source })?;
    let ipc_addr = ipc.local_addr();
    let away_ms = config.away_ms;
    let registration = Arc::new(metad::Registration::new(config, xfer_addr, ipc_addr));
    let session = sessions(&node, registration, &leader, credentials.clone());
    let (known, known_servers) = (leader.known(), leader.known());
    let (registered, failed) = (leader.registered(), leader.failed());
    let (writes, known_leader) = (Arc::clone(&port.writes), Arc::clone(&leader));
    let mut tasks = Vec::from([
        io::task::spawn_owned("metad sessions", metad::run(metads, leader, known, session)),
        io::task::spawn_owned("data transfer", data_port::accept(Arc::clone(port), Listener::Net(listener))),
        io::task::spawn_owned("keepalive", async move { writes.keep_alive().await }),
    ]);
    if let Some(socket) = local_socket {
        port.service.socket_path.set(socket.path().to_owned()).expect("a node has one");
        let accepting = data_port::accept(Arc::clone(port), Listener::Local(socket));
        tasks.push(io::task::spawn_owned("local data transfer", accepting));
    }
    tasks.extend(maintenance.start());
    if let (Some(credentials), Some(dir)) = (credentials, certificates) {
        let keep = certificate::keep(dir, Arc::clone(&credentials), servers, known_servers);
        tasks.push(io::task::spawn_owned("certificate", keep));
        tasks.push(io::task::spawn_owned("certificates", credentials.follow()));
    }
    tracing::info!(node = %node.replicas.disks.node_id(), %xfer_addr, %ipc_addr, "a datanode serves");
    let stop = StopOnDrop(Arc::clone(&node));
    let (leader, metrics) = (known_leader, Arc::new(metrics));
    Ok(Datad { node, stop, xfer_addr, ipc, ipc_addr, leader, away_ms, registered, failed, tasks, metrics })
}

/// Begins a session with a metadata server, of a number and with an address.
fn sessions(
    node: &Node,
    registration: Arc<metad::Registration>,
    leader: &Arc<metad::Leader>,
    credentials: Option<Arc<Credentials>>,
) -> impl Fn(usize, String) -> io::task::Owned<()> + use<> {
    let (replicas, maintenance) = (Arc::clone(&node.replicas), Arc::clone(&node.maintenance));
    let (admission, leader) = (Arc::clone(&node.admission), Arc::clone(leader));
    let answers = rpc::AnswerRoom::default();
    move |number, addr| {
        let options = metad::call_options(leader.server_count(), answers.clone());
        let options = options.with_node(credentials.as_ref(), Expected::AnyMember);
        let session = metad::Session {
            registration: Arc::clone(&registration),
            replicas: Arc::clone(&replicas),
            maintenance: Arc::clone(&maintenance),
            admission: Arc::clone(&admission),
            metad: rpc::Client::with_options(addr, host::user::current(), wire::node::NODE_PROTOCOL, options),
            leader: Arc::clone(&leader),
            number,
            registered_addr: Mutex::default(),
        };
        io::task::spawn_owned("metad session", session.run())
    }
}

impl Datad {
    /// Where blocks are read and written.
    pub fn xfer_addr(&self) -> SocketAddr {
        self.xfer_addr
    }

    pub fn ipc_addr(&self) -> SocketAddr {
        self.ipc_addr
    }

    pub fn node_id(&self) -> NodeId {
        self.node.replicas.disks.node_id()
    }

    /// Returns, with the reason, when the node turns out to belong to another cluster, or another process to be this
    /// node. Then this process should end.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
            Ok(Some(reason)) => reason,
            _ => std::future::pending().await,
        }
    }

    /// As if a metadata server that leads had said so: for tests of a node without one.
    #[doc(hidden)]
    pub fn hear_token_rules(&self, said: &wire::node::TokenRules) {
        self.node.replicas.node.with(|node| node.tokens.hear(said)).expect("keys that a node can take");
    }

    /// As the first registration does: for tests of a node without a metadata server.
    #[doc(hidden)]
    pub fn join_pool(&self, pool: &str) {
        self.node.replicas.disks.join_pool(pool).expect("a pool that its disks can join");
    }

    /// Returns when the metadata server knows the node.
    pub async fn registered(&self) {
        let mut registered = self.registered.clone();
        if registered.wait_for(|registered| *registered).await.is_err() {
            std::future::pending::<()>().await; // the session has ended, so it will never be
        }
    }

    /// All that this datanode counts.
    pub fn metrics(&self) -> Arc<Registry> {
        Arc::clone(&self.metrics)
    }

    /// Tells the state of the node, with its disks, each time it is called; null after the shutdown.
    pub fn status(&self) -> impl Fn() -> serde_json::Value + Send + Sync + use<> {
        let node = Arc::downgrade(&self.node);
        move || node.upgrade().map_or(serde_json::Value::Null, |node| status::status(&node))
    }

    /// Operations under way.
    pub fn transfer_count(&self) -> usize {
        self.node.admission.transfer_count()
    }

    /// Says goodbye, so that what is here is not copied by others, ends connections and closes the disks. What was
    /// acknowledged stays.
    pub async fn shutdown(mut self) {
        // The sessions end first: no heartbeat comes after the goodbye. The asker keeps its connection.
        let goodbye = self.leader.asker().filter(|_| self.away_ms > 0).map(|asker| asker.goodbye(self.away_ms));
        self.tasks.clear();
        if let Some(goodbye) = goodbye {
            match tokio::time::timeout(GOODBYE_WAIT, goodbye).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error = rpc::log_text(&error), "no goodbye to the metadata server"),
                Err(_) => tracing::debug!("the metadata server did not answer the goodbye"),
            }
        }
        drop(self.stop);
        self.ipc.shutdown().await;
        let Self { node, .. } = self;
        let volumes: Vec<_> = node.replicas.disks.disks().iter().map(|disk| disk.volume().clone()).collect();
        let (port, replicas) = (Arc::clone(&node.port), Arc::downgrade(&node.replicas));
        let clock = SystemClock::new();
        let until = clock.monotonic() + SHUTDOWN_WAIT;
        let ended = async {
            node.admission.transfers_ended().await;
            // Idle connections go as well: besides the node's there is ours.
            while Arc::strong_count(&port) > 2 {
                tokio::time::sleep(SHUTDOWN_LOOK).await;
            }
        };
        if tokio::time::timeout(SHUTDOWN_WAIT, ended).await.is_err() {
            tracing::warn!(count = node.admission.transfer_count(), "transfers are cut off by the shutdown");
        }
        // On threads of their own: the runtime would wait for its own, and one disk may hang.
        aside("end of a datanode", move || drop((node, port))).await;
        // Copies and scrubs as well: with the last of them the disks are nobody's but ours.
        while replicas.strong_count() > 0 && clock.monotonic() < until {
            tokio::time::sleep(SHUTDOWN_LOOK).await;
        }
        let closing: Vec<_> = volumes.into_iter().map(|volume| aside("close a disk", move || volume.close())).collect();
        for closed in closing {
            closed.await;
        }
    }
}

/// Does `work` on a thread of its own, from this call on; the future ends with it.
fn aside(name: &'static str, work: impl FnOnce() + Send + 'static) -> impl Future<Output = ()> {
    let (sender, ended) = oneshot::channel::<()>();
    let thread = io::task::thread(name, move || {
        work();
        drop(sender);
    });
    if let Err(error) = thread {
        tracing::error!(name, %error, "no thread left");
    }
    async move { _ = ended.await }
}

#[derive(Debug)]
struct StopOnDrop(Arc<Node>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop.now();
        self.0.service.budget.close();
    }
}
