//! The metadata server: the namespace and the block side behind Hadoop RPC, as one state machine on a Raft log.
//!
//! ```text
//!   clients ─ ClientProtocol ─▶ service ─▶ client/… ──reads──▶ kv's view ◀── rows
//!   ours ─ levada.ClientProtocol ▶ ├▶ own/… ──┤                               │
//!   datanodes ─ NodeProtocol ─▶    │          │                               ▲
//!                                  ▼          └─changes─▶ Raft log ─▶ machine ┘──▶ blocks::Cluster (picture)
//!                                nodes
//!   beside: prepare · reaper · leases and recovery · sealer                                 (tasks)
//! ```
//!
//! Promise: nothing is answered before its entry is synced in the log; what a call sees is the state after all that was
//! answered before it. Time, chance and placement are decided here, on the leader, and stand in the command; applying it
//! is the same everywhere. Soft state (renewals, heartbeats, deletions owed) may be lost at any moment.

mod admin;
mod audit;
mod caller;
mod client;
mod command;
mod config;
mod core;
mod machine;
mod meter;
mod nodes;
mod own;
mod reaper;
mod recovery;
mod refusal;
mod sealing;
mod service;
mod status;
mod tasks;
mod words;

pub use config::Config;

use crate::caller::Users;
use crate::command::{Command, Founding};
use crate::core::{Core, Parts};
use crate::machine::Machine;
use crate::service::Service;
use io::task::Owned;
use io::{Clock, SystemClock};
use raft::Raft;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::Random;

/// The only member there is yet.
const NODE_ID: u64 = 1;
/// Part of the memory that changes may fill until they are synced; the rest is for calls.
const OVERLAY_SHARE: u64 = 4;
/// An overlay longer than this only makes flushes longer.
const OVERLAY_LEN_MAX: u64 = 64 << 20;

/// Why a metadata server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Config(String),
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
    core: Arc<Core>,
    server: rpc::Server,
    tasks: Vec<Owned<()>>,
}

/// Starts a metadata server on the machine's clock. Returns when it serves.
pub async fn start(config: Config) -> Result<Metad, StartError> {
    start_with_clock(config, Arc::new(SystemClock::new())).await
}

/// As [`start`], on a clock of the caller's.
pub async fn start_with_clock(config: Config, clock: Arc<dyn Clock>) -> Result<Metad, StartError> {
    config.check().map_err(StartError::Config)?;
    let dir = config.dir.clone();
    std::fs::create_dir_all(&dir).map_err(|source| StartError::Dir { path: dir.clone(), source })?;
    let overlay_len_max = (config.memory / OVERLAY_SHARE).clamp(1 << 20, OVERLAY_LEN_MAX) as usize;
    let options = kv::Options { overlay_len_max, ..kv::Options::default() };
    let store_dir = dir.join("store");
    let store = io::task::blocking(move || kv::Store::open(&store_dir, options)).await?;
    let machine = Arc::new(Machine::open(store)?);
    let options = raft::Options { dir: dir.join("log"), node_id: NODE_ID };
    let raft = Raft::start(options, Arc::clone(&machine)).await?;
    let users = Users::new(io::user::current(), config.supergroup.clone());
    let pool = found(&machine, &raft, &users, &config, &*clock).await?;
    // Named at random, so that ids leased by a process before this one are never taken for its own.
    machine.watch_blocks(io::OsRandom::new().next_u64())?;
    let memory = config.memory;
    let rpc_addr = config.rpc_addr;
    let core = Arc::new(Core::new(Parts { config, machine, raft, clock, users, pool })?);
    let options = rpc::ServerOptions { held_len_max: (memory / 2) as usize, ..rpc::ServerOptions::default() };
    let service = Arc::new(Service { core: Arc::clone(&core) });
    let server = rpc::Server::bind(rpc_addr, options, service).await;
    let server = server.map_err(|source| StartError::Listen { addr: rpc_addr, source })?;
    let rpc_addr = server.local_addr();
    let tasks = tasks::start(&core);
    tracing::info!(%rpc_addr, pool = core.pool, "the metadata server is ready");
    Ok(Metad { rpc_addr, running: Mutex::new(Some(Running { core, server, tasks })) })
}

/// Makes an empty store at the first start. Answers the block pool.
async fn found(
    machine: &Machine,
    raft: &Raft<Machine>,
    users: &Users,
    config: &Config,
    clock: &dyn Clock,
) -> Result<String, StartError> {
    if let Some(founding) = machine.founding()? {
        return Ok(founding.pool);
    }
    let now = clock.now();
    let format = namespace::Format { owner: users.owner().to_owned(), group: users.supergroup().to_owned() };
    let request = namespace::Request { now, caller: namespace::Caller::system(), retry: None, op: format.into() };
    raft.propose(Command::Namespace(request)).await?;
    let random = io::OsRandom::new().next_u64() >> 32;
    let pool = format!("BP-{random}-{}-{}", config.rpc_addr.ip(), now.0);
    // Last, so that a store that has a pool has all the rest too.
    raft.propose(Command::Found(Founding { pool: pool.clone() })).await?;
    Ok(pool)
}

impl Metad {
    /// Where it listens; the port it took if the configuration said 0.
    pub fn rpc_addr(&self) -> SocketAddr {
        self.rpc_addr
    }

    /// Numbers and names of the moment, for `/status` and `/metrics`.
    pub fn status(&self) -> serde_json::Value {
        match &*self.running() {
            Some(running) => status::status(&running.core),
            None => serde_json::json!({ "stopped": true }),
        }
    }

    /// Answers, with the reason, when the server cannot go on: the log or the store failed. Then the process should end,
    /// as it would refuse everything that changes something.
    pub async fn failed(&self) -> String {
        let raft = self.running().as_ref().map(|running| running.core.raft.clone());
        match raft {
            Some(raft) => raft.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Answers what is under way, makes everything durable and lets go of the directory. A second call does nothing.
    pub async fn shutdown(&self) {
        let running = self.running().take();
        let Some(Running { core, server, tasks }) = running else { return };
        server.shutdown().await;
        drop(tasks);
        core.recoveries.stop();
        if let Err(error) = core.raft.shutdown().await {
            tracing::error!(%error, "the log was not closed cleanly; the next start replays it");
        }
        let machine = Arc::downgrade(&core.machine);
        drop(core);
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
