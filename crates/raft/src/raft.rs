//! A member of the group: starts, takes proposals, flushes the machine, stops.

use crate::COMMAND_LEN_MAX;
use crate::group::Group;
use crate::log::Log;
use crate::machine::{Applier, Driver, Machine};
use crate::network::Nobody;
use crate::stop::Stop;
use crate::types::{Command, Types};
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, Fatal, RaftError as OpenraftError};
use openraft::{BasicNode, Config, ServerState, SnapshotPolicy};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;

#[derive(Clone, Debug)]
pub struct Options {
    /// Where the log lies.
    pub dir: PathBuf,
    /// This member's number, the same for ever.
    pub node_id: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    #[error("{dir} is in use by another process; stop it first, or choose another directory")]
    InUse { dir: PathBuf },
    #[error("the Raft log in {dir}: {source}")]
    Log { dir: PathBuf, source: std::io::Error },
    #[error("the Raft log in {dir} does not belong to this store: {reason}; restore both from one copy")]
    Mismatch { dir: PathBuf, reason: String },
    #[error("a command of {len} bytes; {COMMAND_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("this member does not lead; ask {leader}")]
    NotLeader { leader: String },
    #[error("Raft has stopped on this node: {reason}")]
    Stopped { reason: String },
    #[error("no leader after {waited:?}")]
    NoLeader { waited: Duration },
}

/// A cheap handle; all clones are the same member. Without a [`Raft::shutdown`] it ends when the last is dropped, and the
/// next start applies what was not flushed.
pub struct Raft<M: Machine> {
    inner: Arc<Inner<M>>,
}

struct Inner<M: Machine> {
    raft: openraft::Raft<Types, Applier<M>>,
    driver: Driver<M>,
    stop: Stop,
    /// Bytes of proposals that may be under way, in units of [`BUDGET_UNIT`].
    budget: Semaphore,
    writer: Mutex<Option<JoinHandle<()>>>,
    flusher: ::io::task::Owned<()>,
    _watcher: ::io::task::Owned<()>,
}

impl<M: Machine> Clone for Raft<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: Machine> fmt::Debug for Raft<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raft").field("leader", &self.is_leader()).finish_non_exhaustive()
    }
}

/// A second of work is what a restart applies again at most, and what the log holds.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// A flush that takes longer is asked for again, which does nothing while it goes on.
const FLUSH_WAIT: Duration = Duration::from_secs(60);
/// A single member elects itself at once; this is for a disk that stalls.
const LEADER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Proposals under way hold at most 64 MiB: several times what a disk takes in the time of a sync.
const BUDGET_LEN: usize = 64 << 20;
/// What the smallest proposal is counted as; its way through the tasks takes about that.
const BUDGET_UNIT: usize = 1 << 10;
const COMMAND_VERSION: u8 = 1;

const _: () = assert!(COMMAND_LEN_MAX < BUDGET_LEN);

impl<M: Machine> Raft<M> {
    /// Opens the log, becomes leader and applies what the machine lacks. A new log makes this member its only one. After an
    /// error the log's directory is free again.
    pub async fn start(options: Options, machine: Arc<M>) -> Result<Self, RaftError> {
        let Options { dir, node_id } = options;
        let log_error = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock => RaftError::InUse { dir: dir.clone() },
            _ => RaftError::Log { dir: dir.clone(), source },
        };
        let stop = Stop::new();
        let open = {
            let (dir, stop) = (dir.clone(), stop.clone());
            move || -> io::Result<_> {
                let driver = Driver::new(machine, stop.clone())?;
                let applier = Applier::start(driver.clone())?;
                let (log, writer) = Log::open(&dir, node_id, stop)?;
                Ok((log, writer, driver, applier))
            }
        };
        let (log, writer, driver, applier) = ::io::task::blocking(open).await.map_err(log_error)?;
        if let Some(reason) = log.mismatch(driver.applied()) {
            drop(log);
            join(writer).await;
            return Err(RaftError::Mismatch { dir, reason });
        }
        let raft = match openraft::Raft::new(node_id, config(), Nobody, log, applier).await {
            Ok(raft) => raft,
            Err(error) => {
                join(writer).await;
                return Err(stopped(&stop, &error));
            }
        };
        if let Err(error) = lead(&raft, node_id, &stop).await {
            let _the_reason_is_known = raft.shutdown().await;
            join(writer).await;
            return Err(error);
        }
        let flusher = ::io::task::spawn_owned("raft flush", flush_regularly(raft.clone(), driver.clone()));
        let watcher = ::io::task::spawn_owned("raft watch", watch(raft.clone(), stop.clone()));
        let inner = Inner {
            raft,
            driver,
            stop,
            budget: Semaphore::new(BUDGET_LEN / BUDGET_UNIT),
            writer: Mutex::new(Some(writer)),
            flusher,
            _watcher: watcher,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Answers when `command` is durable and applied. If the caller stops waiting, it may be applied all the same.
    pub async fn propose(&self, command: M::Command) -> Result<M::Reply, RaftError> {
        if let Some(reason) = self.inner.stop.reason() {
            return Err(RaftError::Stopped { reason });
        }
        let bytes = encode(&command);
        if bytes.len() > COMMAND_LEN_MAX {
            return Err(RaftError::TooLong { len: bytes.len() });
        }
        let units = 1 + bytes.len() / BUDGET_UNIT;
        // The semaphore is never closed; were it, the limit would be gone, not the proposal.
        let _budget = self.inner.budget.acquire_many(units as u32).await;
        let written = self.inner.raft.client_write(Command(bytes.into())).await;
        let outcome = written.map_err(|error| refused(&self.inner.stop, error))?.data;
        let reply = outcome.0.downcast::<M::Reply>();
        Ok(*reply.expect("the machine of this member made the reply"))
    }

    pub fn is_leader(&self) -> bool {
        self.inner.stop.reason().is_none() && self.inner.raft.is_leader()
    }

    /// Who is in the group, as this member sees it.
    pub fn group(&self) -> Group {
        Group::of(&self.inner.raft.metrics().borrow_watched())
    }

    /// Comes back, with the reason, if a fault has stopped Raft on this node: the process had better end then, as nothing
    /// can be changed any more. Not after a [`Raft::shutdown`].
    pub async fn failed(&self) -> String {
        self.inner.stop.wait().await
    }

    /// Flushes the machine and ends; the log's directory is free afterwards. Proposals under way may or may not be applied.
    pub async fn shutdown(&self) -> Result<(), RaftError> {
        let Inner { raft, driver, stop, writer, flusher, .. } = &*self.inner;
        flusher.abort();
        // After a fault there is nothing to be kept that the log does not have.
        let flushed = if driver.is_behind() && stop.reason().is_none() {
            let driver = driver.clone();
            ::io::task::blocking(move || driver.flush()).await.map(drop)
        } else {
            Ok(())
        };
        let ended = raft.shutdown().await;
        let thread = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            join(thread).await;
        }
        flushed.map_err(|error| RaftError::Stopped { reason: error.to_string() })?;
        ended.map_err(|error| RaftError::Stopped { reason: error.to_string() })
    }
}

/// Becomes the leader and applies what was proposed before.
async fn lead<M: Machine>(
    raft: &openraft::Raft<Types, Applier<M>>,
    node_id: u64,
    stop: &Stop,
) -> Result<(), RaftError> {
    if raft.is_initialized().await.map_err(|error| stopped(stop, &error))? {
        raft.trigger().elect(false).await.map_err(|error| stopped(stop, &error))?;
    } else {
        let begun = raft.initialize(BTreeMap::from([(node_id, BasicNode::default())])).await;
        begun.map_err(|error| RaftError::Stopped { reason: stop.reason().unwrap_or(error.to_string()) })?;
    }
    let led = raft.wait(Some(LEADER_WAIT_MAX)).state(ServerState::Leader, "becoming leader").await;
    led.map_err(|_| match stop.reason() {
        Some(reason) => RaftError::Stopped { reason },
        None => RaftError::NoLeader { waited: LEADER_WAIT_MAX },
    })?;
    // An entry of our own term: once it is applied, so is everything before it.
    raft.write_blank().await.map_err(|error| refused(stop, error))?;
    Ok(())
}

/// The writer ends when openraft has let go of the log, and lets go of the directory.
async fn join(writer: JoinHandle<()>) {
    let _a_panic_was_reported = ::io::task::blocking(move || writer.join()).await;
}

fn config() -> Arc<Config> {
    let config = Config {
        cluster_name: "levada".into(),
        // A single member has nobody to hear from or to outvote: slow ticks cost nothing.
        heartbeat_interval: 5_000,
        election_timeout_min: 15_000,
        election_timeout_max: 30_000,
        // We ask for snapshots ourselves, and keep no entries behind one: there is no follower to send them to.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        purge_batch_size: 1,
        // A leader that restarts gets a new term: so it need not know how far it had committed.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    Arc::new(config.validate().expect("constants that fit each other"))
}

/// Lets the machine catch up with the log, and the log be cut behind it. Rests while nothing is applied.
async fn flush_regularly<M: Machine>(raft: openraft::Raft<Types, Applier<M>>, driver: Driver<M>) {
    let mut flushes = driver.watch_flushes();
    loop {
        driver.wait_behind().await;
        tokio::select! {
            () = tokio::time::sleep(FLUSH_INTERVAL) => {}
            () = driver.wait_large() => {}
        }
        while driver.is_behind() {
            flushes.mark_unchanged();
            // To openraft a flush is a snapshot. If it fails, everything ends.
            if raft.trigger().snapshot().await.is_err() {
                return;
            }
            if tokio::time::timeout(FLUSH_WAIT, flushes.changed()).await.is_ok() {
                break; // what was applied meanwhile has left its own notice
            }
        }
    }
}

/// Openraft's own end is a reason to stop too, if nothing else was.
async fn watch<M: Machine>(raft: openraft::Raft<Types, Applier<M>>, stop: Stop) {
    let mut metrics = raft.server_metrics();
    // These change at elections only; when openraft ends, so do they.
    while metrics.changed().await.is_ok() {}
    match raft.metrics().borrow_watched().running_state.clone() {
        Ok(()) | Err(Fatal::Stopped) => {}
        Err(fatal) => stop.because(fatal),
    }
}

fn stopped(stop: &Stop, error: &Fatal<Types>) -> RaftError {
    RaftError::Stopped { reason: stop.reason().unwrap_or_else(|| error.to_string()) }
}

fn refused(stop: &Stop, error: OpenraftError<Types, ClientWriteError<Types>>) -> RaftError {
    match error {
        OpenraftError::Fatal(fatal) => stopped(stop, &fatal),
        OpenraftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
            let leader = forward.leader_node.map(|node| node.addr);
            RaftError::NotLeader { leader: leader.unwrap_or_else(|| "again later, when one is elected".into()) }
        }
        OpenraftError::APIError(other) => RaftError::Stopped { reason: other.to_string() },
    }
}

/// A command as it stands in the log: a version byte, then postcard.
fn encode<T: Serialize>(command: &T) -> Vec<u8> {
    postcard::to_extend(command, vec![COMMAND_VERSION]).expect("a command is plain data")
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&COMMAND_VERSION, command)) => postcard::from_bytes(command).map_err(|error| error.to_string()),
        version => Err(format!("of version {:?}; this program knows {COMMAND_VERSION}", version.map(|(byte, _)| byte))),
    }
}
