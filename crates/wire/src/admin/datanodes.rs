//! The datanodes: who they are, what they hold, and which of them are to be emptied.

use crate::node::Disk;
use prost::Message;

pub const LIST_DATANODES: &str = "listDatanodes";
pub const DRAIN: &str = "drainDatanode";

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListDatanodesRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Datanode {
    #[prost(string, tag = "1")]
    pub id: String,
    /// Where it is dialled for data transfer, host:port.
    #[prost(string, tag = "2")]
    pub addr: String,
    #[prost(string, tag = "3")]
    pub host: String,
    #[prost(string, tag = "4")]
    pub rack: String,
    /// It was heard a moment ago.
    #[prost(bool, tag = "5")]
    pub live: bool,
    /// Since it was heard last; absent if it never was by this leader.
    #[prost(uint64, optional, tag = "6")]
    pub silent_ms: Option<u64>,
    /// It is being emptied, or is empty and takes nothing.
    #[prost(bool, tag = "7")]
    pub draining: bool,
    #[prost(uint64, tag = "8")]
    pub capacity_len: u64,
    #[prost(uint64, tag = "9")]
    pub used_len: u64,
    #[prost(uint64, tag = "10")]
    pub free_len: u64,
    #[prost(uint32, tag = "11")]
    pub transfer_count: u32,
    #[prost(uint64, tag = "12")]
    pub pipeline_count: u64,
    #[prost(uint64, tag = "13")]
    pub container_count: u64,
    /// It is empty: nothing that it has is needed.
    #[prost(bool, tag = "14")]
    pub drained: bool,
    /// Each of its disks, as it told last.
    #[prost(message, repeated, tag = "15")]
    pub disks: Vec<Disk>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListDatanodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub datanodes: Vec<Datanode>,
}

/// Begins to empty a datanode, or takes it back into service.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DrainRequest {
    /// Its id, the beginning of its id, or its address.
    #[prost(string, tag = "1")]
    pub datanode: String,
    /// False: it serves as usual again.
    #[prost(bool, tag = "2")]
    pub drain: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct DrainResponse {
    #[prost(string, tag = "1")]
    pub id: String,
    /// The job that empties it; 0 for none.
    #[prost(uint64, tag = "2")]
    pub job: u64,
}
