//! What a method returns: a message, or the bytes of one that it has encoded elsewhere.

use bytes::Bytes;
use prost::Message;

/// What a method returns: a message, or the bytes of one that it has encoded elsewhere.
pub(super) trait Answer {
    fn into_bytes(self) -> Bytes;
}

impl<M: Message> Answer for M {
    fn into_bytes(self) -> Bytes {
        self.encode_to_vec().into()
    }
}

#[derive(Debug)]
pub(super) struct Encoded(pub(super) Bytes);

impl Answer for Encoded {
    fn into_bytes(self) -> Bytes {
        self.0
    }
}
