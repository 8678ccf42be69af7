//! A datanode: the replicas of some disks, served to clients and to other datanodes.
//!
//! ```text
//! transfer port ── session ── read ──▶ sendfile                       tasks
//!                     ├────── write ─▶ xfer::write::Link, container::Writer  a thread each
//!                     ├────── small ─▶ Volume::put_batch             a thread a disk, and links to other nodes
//!                     ├────── checksum
//!                     └────── transfer (a copy for a client's chain)
//! RPC port ─────── ipc: visible length; recovery, for the metadata server
//! metad ────────── register, catalogue, heartbeats; its orders
//! ```
//!
//! Promise: what is acknowledged is here, on all nodes below, and told to the metadata server; what is served was
//! acknowledged or stored with the checksums that go along. A client can break its own connection and nothing else: all
//! it sends is bounded before memory is taken, and every wait has a limit (see [`Limits`]).

mod answer;
mod beacon;
mod block;
mod budget;
mod changes;
mod checksum;
mod compare;
mod config;
mod contents;
mod copier;
mod deleter;
mod disk_balance;
mod error;
mod fetch;
mod heartbeat_progress;
mod inbox;
mod ipc;
mod metad;
mod meter;
mod node;
mod ordered;
mod owners;
mod pace;
mod read;
mod scrub;
mod servers;
mod session;
mod small;
mod status;
mod stop;
mod telemetry;
mod transfer;
mod write;

pub use config::{Config, Durability, Limits};
pub use error::StartError;

use io::Crowd;
use metrics::Registry;
use node::Node;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use telemetry::Telemetry;
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
    registered: watch::Receiver<bool>,
    failed: watch::Receiver<Option<String>>,
    tasks: Vec<io::task::Owned<()>>,
    metrics: Arc<Registry>,
}

/// How long a shutdown waits for transfers to end. They are told to; what is cut off, clients recover.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);
const SHUTDOWN_LOOK: Duration = Duration::from_millis(5);
/// After the kernel refused a connection for want of descriptors: the next try finds none either, so let it rest.
const ACCEPT_REST: Duration = Duration::from_millis(50);

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
    let options = container::Options { durability, meters, ..container::Options::default() };
    let disks = io::task::blocking(move || disks::open(&dirs, &options)).await?;
    let (xfer, ipc) = (config.xfer_addr, config.ipc_addr);
    let node = Arc::new(Node::new(config, disks)?.counting(Telemetry::new(&mut metrics)));
    telemetry::read(&mut metrics, &node);
    let listener = TcpListener::bind(xfer).await.map_err(|source| StartError::Bind { addr: xfer, source })?;
    let xfer_addr = listener.local_addr()?;
    let (known, registered) = watch::channel(false);
    let metads = node.config.metads();
    let leader = Arc::new(metad::Leader::new(metads.len(), known));
    let service = Arc::new(ipc::Ipc::new(Arc::clone(&node), leader.known()));
    let ipc = rpc::Server::bind(ipc, ipc::options(), service)
        .await
        .map_err(|source| StartError::Bind { addr: ipc, source })?;
    let ipc_addr = ipc.local_addr();
    let (for_sessions, led) = (Arc::clone(&node), Arc::clone(&leader));
    let answers = rpc::AnswerRoom::default();
    let session = move |number, addr| {
        let options = metad::call_options(led.server_count(), answers.clone());
        let metad = rpc::Client::with_options(addr, host::user::current(), wire::node::NODE_PROTOCOL, options);
        let (node, leader) = (Arc::clone(&for_sessions), Arc::clone(&led));
        let session =
            metad::Session { node, metad, xfer_addr, ipc_addr, leader, number, registered_addr: Mutex::default() };
        io::task::spawn_owned("metad session", session.run())
    };
    let (known, failed) = (leader.known(), leader.failed());
    let mut tasks = Vec::from([
        io::task::spawn_owned("metad sessions", servers::run(metads, leader, known, session)),
        io::task::spawn_owned("data transfer", accept(Arc::clone(&node), listener)),
        io::task::spawn_owned("contents", contents::run(Arc::clone(&node))),
        io::task::spawn_owned("owners", owners::run(Arc::clone(&node))),
        io::task::spawn_owned("beacon", beacon::run(Arc::clone(&node))),
    ]);
    for number in 0..node.disks.disks().len() {
        let (changes, answer_max) =
            (Arc::clone(&node.changes), Duration::from_millis(node.config.limits.disk_answer_ms));
        let watch = disks::watch(node.disks.clone(), number, answer_max, move || changes.came.notify_one());
        tasks.push(io::task::spawn_owned("disk", watch));
        tasks.push(io::task::spawn_owned("deleter", deleter::run(Arc::clone(&node), number)));
        tasks.push(io::task::spawn_owned("scrub", scrub::background(Arc::clone(&node), number)));
    }
    tasks.push(io::task::spawn_owned("settle", disks::settle(node.disks.clone())));
    tracing::info!(node = %node.disks.node_id(), %xfer_addr, %ipc_addr, "a datanode serves");
    let stop = StopOnDrop(Arc::clone(&node));
    Ok(Datad { node, stop, xfer_addr, ipc, ipc_addr, registered, failed, tasks, metrics: Arc::new(metrics) })
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
        self.node.disks.node_id()
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

    /// Returns when the metadata server knows the node.
    pub async fn registered(&self) {
        let mut registered = self.registered.clone();
        if registered.wait_for(|known| *known).await.is_err() {
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
        self.node.transfer_count()
    }

    /// Ends connections and closes the disks. What was acknowledged stays.
    pub async fn shutdown(mut self) {
        self.tasks.clear();
        drop(self.stop);
        self.ipc.shutdown().await;
        let ended = async {
            self.node.transfers_ended().await;
            // Idle connections go as well, and with the last of them the disks are nobody's but ours.
            while Arc::strong_count(&self.node) > 1 {
                tokio::time::sleep(SHUTDOWN_LOOK).await;
            }
        };
        if tokio::time::timeout(SHUTDOWN_WAIT, ended).await.is_err() {
            tracing::warn!(count = self.node.transfer_count(), "transfers are cut off by the shutdown");
        }
        // On threads of their own: the runtime would wait for its own, and one disk may hang.
        let volumes: Vec<_> = self.node.disks.disks().iter().map(|disk| disk.volume().clone()).collect();
        let node = self.node;
        aside("end of a datanode", move || drop(node)).await;
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
        self.0.budget.close();
    }
}

/// Takes connections for ever; each is served by a task of its own.
async fn accept(node: Arc<Node>, listener: TcpListener) {
    let crowd = Crowd::new(node.config.limits.connection_count_max);
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let Some(seat) = crowd.enter() else {
                    let max = node.config.limits.connection_count_max;
                    tracing::warn!(%peer, max, "a connection is refused: all others are being answered");
                    continue;
                };
                io::task::spawn("session", session::serve(Arc::clone(&node), socket, peer, seat));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}
