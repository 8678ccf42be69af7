//! Reasons why a metadata server does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

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

impl StartError {
    /// True if this server has other data than its group: it must be removed, and join under a new id.
    pub fn must_rejoin(&self) -> bool {
        matches!(self, Self::Raft(raft::RaftError::Diverged { .. }))
    }
}
