//! What ends a stream: the nodes to blame for it.

use crate::fault::Fault;
use wire::Status;

/// What a bad reply in an ack says of its node.
pub(super) fn of_reply(status: Status) -> Fault {
    let message = if status == Status::OOB_RESTART { "it restarts" } else { "it did not take a packet" };
    Fault::Refused { status, message: message.into() }
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
