//! A member of the group: starts, takes proposals, flushes the machine, stops.

use crate::Types;
use crate::entry::{Command, encode};
use crate::log::Log;
use crate::machine::{Driver, Machine};
use crate::network::Nobody;
use openraft::error::{ClientWriteError, RaftError as OpenraftError};
use openraft::{BasicNode, Config, ServerState, SnapshotPolicy};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Where the log lies.
    pub dir: PathBuf,
    /// This member's number, the same for ever.
    pub node_id: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    #[error("the Raft log in {dir}: {source}")]
    Log { dir: PathBuf, source: std::io::Error },
    #[error("this member does not lead; ask {leader}")]
    NotLeader { leader: String },
    #[error("Raft has stopped on this node: {reason}")]
    Stopped { reason: String },
    #[error("no leader after {waited:?}")]
    NoLeader { waited: Duration },
}

/// A cheap handle; all clones are the same member.
pub struct Raft<M: Machine> {
    raft: openraft::Raft<Types, Driver<M>>,
    driver: Driver<M>,
    flusher: Arc<io::task::Owned<()>>,
}

impl<M: Machine> Clone for Raft<M> {
    fn clone(&self) -> Self {
        Self { raft: self.raft.clone(), driver: self.driver.clone(), flusher: Arc::clone(&self.flusher) }
    }
}

impl<M: Machine> fmt::Debug for Raft<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raft").field("leader", &self.is_leader()).finish_non_exhaustive()
    }
}

/// A second of work is what a restart applies again at most, and what the log holds.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// A single member elects itself at once; this is for a disk that stalls.
const LEADER_WAIT_MAX: Duration = Duration::from_secs(30);

impl<M: Machine> Raft<M> {
    /// Opens the log, becomes leader and applies what the machine lacks. A new log makes this member its only one.
    pub async fn start(options: Options, machine: Arc<M>) -> Result<Self, RaftError> {
        let log_error = |source| RaftError::Log { dir: options.dir.clone(), source };
        let log = Log::open(&options.dir).map_err(log_error)?;
        let driver = Driver::new(machine).map_err(log_error)?;
        let config = Config {
            cluster_name: "levada".into(),
            // A single member has nobody to hear from or to outvote: slow ticks cost nothing.
            heartbeat_interval: 5_000,
            election_timeout_min: 15_000,
            election_timeout_max: 30_000,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            purge_batch_size: 1,
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(stopped)?);
        let raft = openraft::Raft::new(options.node_id, config, Nobody, log, driver.clone()).await.map_err(stopped)?;
        if raft.is_initialized().await.map_err(stopped)? {
            raft.trigger().elect(false).await.map_err(stopped)?;
        } else {
            let members = BTreeMap::from([(options.node_id, BasicNode::default())]);
            raft.initialize(members).await.map_err(stopped)?;
        }
        let leads = raft.wait(Some(LEADER_WAIT_MAX)).state(ServerState::Leader, "becoming leader").await;
        leads.map_err(|_| RaftError::NoLeader { waited: LEADER_WAIT_MAX })?;
        // An entry of our own term: once it is applied, so is everything before it.
        raft.write_blank().await.map_err(refused)?;
        let flusher = Arc::new(io::task::spawn_owned("raft flush", flush_regularly(raft.clone(), driver.clone())));
        Ok(Self { raft, driver, flusher })
    }

    /// Answers when `command` is durable and applied.
    pub async fn propose(&self, command: M::Command) -> Result<M::Reply, RaftError> {
        let command = Command(encode(&command).into());
        let written = self.raft.client_write(command).await.map_err(refused)?;
        let reply = written.data.0.downcast::<M::Reply>();
        Ok(*reply.expect("the machine of this member made the reply"))
    }

    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Flushes the machine and ends. Proposals under way may or may not be applied.
    pub async fn shutdown(&self) -> Result<(), RaftError> {
        self.flusher.abort();
        if self.driver.is_behind() {
            let mut builder = self.driver.clone();
            openraft::storage::RaftSnapshotBuilder::build_snapshot(&mut builder).await.map_err(stopped)?;
        }
        self.raft.shutdown().await.map_err(stopped)
    }
}

/// Lets the machine catch up with the log, and cuts the log behind it.
async fn flush_regularly<M: Machine>(raft: openraft::Raft<Types, Driver<M>>, driver: Driver<M>) {
    loop {
        tokio::time::sleep(FLUSH_INTERVAL).await;
        // Building a "snapshot" flushes; openraft then cuts the log. An error stops openraft, which proposals report.
        if driver.is_behind() && raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

fn stopped(reason: impl fmt::Display) -> RaftError {
    RaftError::Stopped { reason: reason.to_string() }
}

fn refused(error: OpenraftError<Types, ClientWriteError<Types>>) -> RaftError {
    match error {
        OpenraftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
            let leader = forward.leader_node.map(|node| node.addr);
            RaftError::NotLeader { leader: leader.unwrap_or_else(|| "again later, when one is elected".into()) }
        }
        other => stopped(other),
    }
}
