//! The metadata server: the namespace and the block side behind Hadoop RPC, as one state machine on a Raft log.
//!
//! ```text
//!   clients ─ ClientProtocol ─▶ service ─▶ client/… ──reads──▶ kv's view ◀── rows
//!   ours ─ levada.ClientProtocol ▶ ├▶ own/… ──┤                               │
//!   datanodes ─ NodeProtocol ─▶    │          │                               ▲
//!                                  ▼          └─changes─▶ Raft log ─▶ machine ┘──▶ lead::Cluster (picture)
//!                                nodes
//!
//!   beside, while this server leads (`tasks`):
//!     for new blocks    prepare ── sets, containers, ids ahead     sealer ── measures, seals and removes containers
//!     for files         leases ── those that timed out, recovery   reaper ── frees deleted trees, deletes replicas
//!     for copies        members ─▶ repair ◀── reported, census, contents                            (`repair`)
//!     for all of them   hearing ── confirms that this server leads: only then a silence says something
//! ```
//!
//! Promise: nothing is answered before its entry is synced in the log; what a call sees is the state after all that was
//! answered before it. Time, chance and placement are decided here, on the leader, and stand in the command; applying
//! it is the same everywhere. What follows from a command for the leader is handed to it where the command is applied
//! (`effects`), so no call has to look after its change. Soft state (renewals, heartbeats, deletions owed) may be lost at any moment.

mod admin;
mod admission;
mod ask;
mod audit;
mod balancer;
mod caller;
mod client;
mod command;
mod config;
mod core;
mod date;
mod door;
mod effects;
mod faults;
mod fsck;
#[cfg(test)]
mod golden;
mod groups;
mod ha;
mod heard;
mod hearing;
mod hearts;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod identity;
mod machine;
mod mappings;
mod measuring;
mod meter;
mod nodes;
mod own;
mod peers;
mod racks;
mod reaper;
mod recovery;
mod refusal;
mod removal;
mod repair;
mod room;
mod sealing;
mod seat;
mod service;
mod settings;
mod standby;
mod status;
#[cfg(test)]
mod status_page;
mod tasks;
mod words;

pub use config::{Config, MemberAddr};

use crate::caller::Users;
use crate::machine::Machine;
use crate::peers::Peers;
use crate::room::Room;
use crate::seat::Seat;
use crate::service::Service;
use io::task::Owned;
use io::{Clock, SystemClock};
use raft::{GroupOptions, Peer, Raft, Standing, Timing};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Part of the memory that changes may fill until they are synced; the rest is for calls.
const OVERLAY_SHARE: u64 = 4;
/// An overlay longer than this only makes flushes longer.
const OVERLAY_LEN_MAX: u64 = 64 << 20;

/// Why a metadata server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Config(String),
    #[error("asking the user database who runs this server: {0}; look at the directory server, then start again")]
    Owner(std::io::Error),
    #[error("{path}: {source}")]
    Dir { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] kv::KvError),
    #[error(transparent)]
    Rows(#[from] types::rows::RowsError),
    #[error(transparent)]
    Raft(#[from] raft::RaftError),
    #[error("listening on {addr}: {source}")]
    Listen { addr: SocketAddr, source: std::io::Error },
}

/// Until the last task that works on the store has let go of it; they do when they are next looked at.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
const RELEASE_POLL: Duration = Duration::from_millis(5);

/// A running metadata server. To end it cleanly, see [`Metad::shutdown`]; dropped, it is as if it was killed.
#[derive(Debug)]
pub struct Metad {
    rpc_addr: SocketAddr,
    /// `None` after the shutdown.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    seat: Arc<Seat>,
    server: rpc::Server,
    /// They follow the elections, and the free space.
    tasks: [Owned<()>; 2],
}

/// Starts a metadata server on the machine's clock. Returns when it serves.
pub async fn start(config: Config) -> Result<Metad, StartError> {
    start_with_clock(config, Arc::new(SystemClock::new())).await
}

/// As [`start`], on a clock of the caller's.
pub async fn start_with_clock(config: Config, clock: Arc<dyn Clock>) -> Result<Metad, StartError> {
    config.check().map_err(StartError::Config)?;
    let owner = io::task::blocking(host::user::of_process).await.map_err(StartError::Owner)?;
    let users = Users::new(owner.clone(), config.supergroup.clone(), Box::new(host::user::groups_of));
    let dir = config.dir.clone();
    std::fs::create_dir_all(&dir).map_err(|source| StartError::Dir { path: dir.clone(), source })?;
    let overlay_len_max = (config.memory / OVERLAY_SHARE).clamp(1 << 20, OVERLAY_LEN_MAX) as usize;
    let options = kv::Options { overlay_len_max, ..kv::Options::default() };
    let store_dir = dir.join("store");
    let store = io::task::blocking(move || kv::Store::open(&store_dir, options)).await?;
    let incoming = dir.join("incoming");
    let machine = Arc::new(io::task::blocking(move || Machine::open(store, incoming)).await?);
    let peers = config.is_group().then(|| {
        let known = config.members.iter().map(|member| (member.id, member.addr.clone()));
        Arc::new(Peers::new(owner, known.collect()))
    });
    let options = raft::Options { dir: dir.join("log"), node_id: config.id, group: group(&config, peers.as_ref()) };
    let raft = Raft::start(options, Arc::clone(&machine)).await?;
    let (memory, rpc_addr) = (config.memory, config.rpc_addr);
    let room = Arc::new(Room::new(&config, &machine));
    let (its_config, its_clock) = (config.clone(), Arc::clone(&clock));
    let audit = io::task::blocking(move || audit::Log::open(&its_config, &its_clock)).await;
    let audit = audit.map_err(|source| StartError::Dir { path: config.dir.join("audit"), source })?;
    let seat = Arc::new(Seat::new(config, machine, raft, clock, peers, users, Arc::clone(&room)).audited(audit));
    let standing = *seat.raft.standing().borrow();
    if let Standing::Leading { term } = standing {
        // Alone. Whatever is wrong is told to who starts the server.
        seat.take(term).await?;
    }
    let options = rpc::ServerOptions {
        held_len_max: (memory / 2) as usize,
        urgent_protocol: Some(wire::raft::RAFT_PROTOCOL),
        ..rpc::ServerOptions::default()
    };
    let server = rpc::Server::bind(rpc_addr, options, Arc::new(Service { seat: Arc::clone(&seat) })).await;
    let server = match server {
        Ok(server) => server,
        Err(source) => {
            seat.leave();
            return Err(StartError::Listen { addr: rpc_addr, source });
        }
    };
    let rpc_addr = server.local_addr();
    let _set_once = seat.rpc_addr.set(rpc_addr);
    let keeper = io::task::spawn_owned("seat", Arc::clone(&seat).keep());
    let watcher = io::task::spawn_owned("free space", room.watch());
    tracing::info!(%rpc_addr, "the metadata server is ready");
    Ok(Metad { rpc_addr, running: Mutex::new(Some(Running { seat, server, tasks: [keeper, watcher] })) })
}

fn group(config: &Config, peers: Option<&Arc<Peers>>) -> Option<GroupOptions> {
    let transport: Arc<dyn raft::Transport> = Arc::clone(peers?) as _;
    let founder = |member: &MemberAddr| Peer { id: member.id, addr: member.addr.clone() };
    // One that joins founds nothing, whoever is listed.
    let founders = if config.join { Vec::new() } else { config.members.iter().map(founder).collect() };
    let (timing, retain_len) = (Timing::default(), config.log_kept_len as usize);
    Some(GroupOptions { transport, founders, timing, retain_len, undone: None })
}

impl Metad {
    /// Where it listens; the port it took if the configuration said 0.
    pub fn rpc_addr(&self) -> SocketAddr {
        self.rpc_addr
    }

    /// Numbers and names of the moment, for `/status` and `/metrics`.
    pub fn status(&self) -> serde_json::Value {
        match &*self.running() {
            Some(running) => status::status(&running.seat),
            None => serde_json::json!({ "stopped": true }),
        }
    }

    /// Begins what `hdfs fsck` asks for; the report comes in pieces, and ends when the channel does. `None`: too many
    /// run already. `pairs`: of the query.
    pub fn fsck(&self, pairs: Vec<(String, String)>, peer: IpAddr) -> Option<mpsc::Receiver<String>> {
        fsck::start(&self.running().as_ref()?.seat, pairs, peer)
    }

    /// Answers, with the reason, when the server cannot go on: the log or the store failed. Then the process should
    /// end, as it would refuse everything that changes something.
    pub async fn failed(&self) -> String {
        let raft = self.running().as_ref().map(|running| running.seat.raft.clone());
        match raft {
            Some(raft) => raft.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Answers what is under way, makes everything durable and lets go of the directory. A second call does nothing.
    pub async fn shutdown(&self) {
        let running = self.running().take();
        let Some(Running { seat, server, tasks }) = running else { return };
        server.shutdown().await;
        drop(tasks);
        seat.leave();
        if let Err(error) = seat.raft.shutdown().await {
            tracing::error!(%error, "the log was not closed cleanly; the next start replays it");
        }
        let machine = Arc::downgrade(&seat.machine);
        // Behind the last call. It waits for a disk.
        io::task::blocking(move || seat.audit.as_ref().inspect(|log| log.close()).map(drop)).await;
        let released = async {
            while machine.strong_count() > 0 {
                tokio::time::sleep(RELEASE_POLL).await;
            }
        };
        if tokio::time::timeout(RELEASE_WAIT, released).await.is_err() {
            tracing::warn!("a task still works on the store; its directory is free when this process ends");
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
