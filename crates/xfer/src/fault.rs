//! Why a datanode did not do what it was asked, as whoever reads from it or writes to it finds out.

use crate::answer::Refusal;
use wire::{Status, WireError};

/// The connection is of no more use; another node may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("no connection: {0}")]
    NoConnection(String),
    #[error("it answered: {message}")]
    Refused { status: Status, message: String },
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    Silent,
    /// The only one that speaks against the replica.
    #[error("checksum error at offset {offset} of the block")]
    Corrupt { offset: u64 },
    #[error("not understood: {0}")]
    Protocol(String),
}

impl Fault {
    /// The token is not valid any more: with another one the same node may do it.
    pub fn is_token_refusal(&self) -> bool {
        matches!(self, Self::Refused { status: Status::ERROR_ACCESS_TOKEN, .. })
    }

    /// The node closed the connection before all was there.
    pub fn closed() -> Self {
        Self::Broken("it was closed".to_owned())
    }
}

impl From<Refusal> for Fault {
    fn from(Refusal { status, message, .. }: Refusal) -> Self {
        Self::Refused { status, message }
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}
