//! Errors that end a round of repair early.

use crate::change_error::ChangeError;
use raft::RaftError;
use types::rows::RowsError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RepairError {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Raft(#[from] RaftError),
    #[error("{0}")]
    Refused(String),
}
