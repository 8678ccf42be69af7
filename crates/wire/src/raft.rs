//! How metadata servers of one group reach each other: [`RAFT_PROTOCOL`], on their RPC ports. What the bytes mean is
//! the business of the crate `raft`.

pub use crate::proto::MemberMessage;

/// Metad → metad.
pub const RAFT_PROTOCOL: &str = "org.levada.RaftProtocol";
pub const RAFT_VERSION: u64 = 1;

pub const TELL: &str = "tell";
