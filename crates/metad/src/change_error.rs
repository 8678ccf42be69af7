//! Reasons why a proposed change was not made.

use crate::free_space::NoRoom;
use raft::RaftError;

/// Why a change of this server's own was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Refused(namespace::NsError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Raft(#[from] RaftError),
}
