//! The answer that every operation gets first: all is well, or why not.

use hdfs::proto;
use wire::{Status, delimited};
use xfer::answer::cut;
pub(crate) use xfer::answer::success;

/// Why an operation is refused. It is sent to the client, its texts cut, and the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) message: String,
    /// `ip:port` of the node of a chain that is to blame, as the client wrote it; empty for this one.
    pub(crate) first_bad_link: String,
}

impl Refusal {
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { status: Status::ERROR, message: message.into(), first_bad_link: String::new() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { status: Status::ERROR_UNSUPPORTED, ..Self::error(message) }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        message_bytes(&cut(self.answer()))
    }

    pub(crate) fn answer(self) -> proto::BlockOpResponseProto {
        proto::BlockOpResponseProto {
            status: self.status.0.into(),
            first_bad_link: Some(self.first_bad_link),
            message: Some(self.message),
            ..Default::default()
        }
    }
}

impl From<container::ReplicaError> for Refusal {
    fn from(error: container::ReplicaError) -> Self {
        Self::error(error.to_string())
    }
}

/// A message with its length, to be sent in one piece.
pub(crate) fn message_bytes(message: &impl prost::Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(message, &mut bytes);
    bytes
}
