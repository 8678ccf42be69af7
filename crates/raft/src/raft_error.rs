//! Why a member does not start, or a proposal fails.

use crate::agreement;
use crate::limits::COMMAND_LEN_MAX;
use crate::stop::Stop;
use crate::types::Types;
use openraft::errors::{ClientWriteError, Fatal, ForwardToLeader, RaftError as OpenraftError};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    #[error("{dir} is in use by another process; stop it first, or choose another directory")]
    InUse { dir: PathBuf },
    #[error("the Raft log in {dir}: {source}")]
    Log { dir: PathBuf, source: std::io::Error },
    #[error("the Raft log in {dir} does not belong to this store: {reason}; restore both from one copy")]
    Mismatch { dir: PathBuf, reason: String },
    #[error("the member in {dir} has other rows than its group: {reason}. {}", agreement::ADVICE)]
    Diverged { dir: PathBuf, reason: String },
    #[error("this change takes {len} bytes in the log, and {COMMAND_LEN_MAX} are allowed; change less at once")]
    TooLong { len: usize },
    /// The group has members that do not know its form, or had them until now.
    #[error(
        "this change needs level {needed} of what is written, and the group has {level}; start the newer program on \
         all its members"
    )]
    Level { needed: u8, level: u8 },
    #[error("this member leads and decides nothing: {reason}")]
    Doubt { reason: String },
    #[error("this member does not lead; ask {leader}")]
    NotLeader { leader: String },
    #[error("Raft has stopped on this node: {reason}")]
    Stopped { reason: String },
    #[error("no leader after {waited:?}; start the other members, and see whether they reach each other")]
    NoLeader { waited: Duration },
    #[error("this member belongs to a group of several; give all of them in its configuration")]
    Several,
    /// A server that is to join has data already.
    #[error(
        "the server at {addr} does not wait to join as member {id}: its log is not empty. If it is of no use to \
         anybody, empty that server's directory and start it again. Nothing was changed"
    )]
    NotNew { id: u64, addr: String },
    #[error("{reason}")]
    Members { reason: String },
}

pub(crate) fn stopped(stop: &Stop, error: &Fatal<Types>) -> RaftError {
    RaftError::Stopped { reason: stop.reason().unwrap_or_else(|| error.to_string()) }
}

pub(crate) fn refused(stop: &Stop, error: OpenraftError<Types, ClientWriteError<Types>>) -> RaftError {
    match error {
        OpenraftError::Fatal(fatal) => stopped(stop, &fatal),
        OpenraftError::APIError(ClientWriteError::ForwardToLeader(forward)) => elsewhere(forward),
        // Nobody knows whether it will be applied: whoever asks again must be recognised.
        OpenraftError::APIError(ClientWriteError::LogEntryDiscarded(forward)) => elsewhere(forward),
        OpenraftError::APIError(other) => RaftError::Members { reason: other.to_string() },
    }
}

pub(crate) fn elsewhere(forward: ForwardToLeader<Types>) -> RaftError {
    let leader = forward.leader_node.map(|node| node.addr).filter(|addr| !addr.is_empty());
    RaftError::NotLeader { leader: leader.unwrap_or_else(|| "again later, when one is elected".into()) }
}
