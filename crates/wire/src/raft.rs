//! How metadata servers of one group reach each other: [`RAFT_PROTOCOL`], on their RPC ports. What the bytes mean is
//! the business of the crate `raft`.

use bytes::Bytes;
use prost::Message;

/// Metad → metad.
pub const RAFT_PROTOCOL: &str = "org.levada.RaftProtocol";
pub const RAFT_VERSION: u64 = 1;

pub const TELL: &str = "tell";

/// A message to another member, and its answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MemberMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub bytes: Bytes,
}
