//! Why a read did not come to its end.

use crate::answer::Refused;
use wire::WireError;

/// What the reader's end found. The connection is of no more use; another replica may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("it closed the connection")]
    Closed,
    #[error("it sends nothing")]
    Silent,
    /// The only one that speaks against the replica.
    #[error("checksum error at offset {offset} of the block")]
    Corrupt { offset: u64 },
    #[error("not understood: {0}")]
    Protocol(String),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// The peer of a sender kept it waiting for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Late {
    #[error("the reader takes nothing")]
    TakesNothing,
    #[error("does not answer")]
    Unanswered,
}
