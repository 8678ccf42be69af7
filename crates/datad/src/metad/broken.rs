//! Why a session with a metadata server broke.

use rpc::CallError;
use wire::node::{NODE_IN_USE, NODE_REVOKED, NODE_SUPERSEDED};

#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Call(CallError),
    #[error("the metadata server does not know this node")]
    Unknown,
    #[error("a disk of this node has failed")]
    DiskFailed,
    /// Another process with this node's id is alive.
    #[error("{0}")]
    InUse(String),
    /// Another process has taken this one's place.
    #[error("{0}")]
    Superseded(String),
    /// This node's certificate does not count any more.
    #[error("{0}")]
    Revoked(String),
    #[error(transparent)]
    Volume(#[from] container::VolumeError),
    #[error(transparent)]
    Replica(#[from] container::ReplicaError),
}

impl From<CallError> for Broken {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Remote { class, message, .. } if class == NODE_IN_USE => Self::InUse(message),
            CallError::Remote { class, message, .. } if class == NODE_SUPERSEDED => Self::Superseded(message),
            CallError::Remote { class, message, .. } if class == NODE_REVOKED => Self::Revoked(message),
            error => Self::Call(error),
        }
    }
}
