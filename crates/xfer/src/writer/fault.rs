//! What ends a stream, and which nodes are to blame for it.

use wire::{Status, WireError};

/// Why a node does not take a block, or takes no more of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("no connection: {0}")]
    NoConnection(String),
    #[error("it answered: {message}")]
    Refused { status: i32, message: String },
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    Silent,
    #[error("not understood: {0}")]
    Protocol(String),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl Fault {
    /// What a bad reply in an ack says of its node.
    pub(super) fn of_reply(status: Status) -> Self {
        let message = if status == Status::OOB_RESTART { "it restarts" } else { "it did not take a packet" };
        Self::Refused { status: status.0.into(), message: message.into() }
    }
}

/// Why a stream is of no more use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Break {
    /// The nodes to blame, as places in the order of the stream's nodes, ascending.
    pub nodes: Vec<(usize, Fault)>,
}

impl Break {
    pub fn of(node: usize, fault: Fault) -> Self {
        Self { nodes: vec![(node, fault)] }
    }

    /// The first node, which is the only one that the writer sees, is to blame for all that no other is named for.
    pub(super) fn of_first(fault: Fault) -> Self {
        Self::of(0, fault)
    }
}
