//! Where blocks are: pipelines, containers, and what has fewer copies than it should have.

use prost::Message;

pub const LIST_PIPELINES: &str = "listPipelines";
pub const LIST_CONTAINERS: &str = "listContainers";
pub const UNDER_REPLICATED: &str = "underReplicated";

/// Lines of one answer.
pub const PAGE_COUNT_MAX: usize = 1000;

/// A page: what comes behind `after`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PageRequest {
    #[prost(uint64, tag = "1")]
    pub after: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Pipeline {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// Members it should have; 0 if that was never recorded.
    #[prost(uint32, tag = "3")]
    pub wanted: u32,
    /// Made ahead of time, for new blocks.
    #[prost(bool, tag = "4")]
    pub planned: bool,
    /// Addresses; ids where a node was never heard.
    #[prost(string, repeated, tag = "5")]
    pub members: Vec<String>,
    /// Of these, who still copies.
    #[prost(string, repeated, tag = "6")]
    pub joining: Vec<String>,
    #[prost(uint64, tag = "7")]
    pub container_count: u64,
    /// Bytes of its blocks, about.
    #[prost(uint64, tag = "8")]
    pub len: u64,
    /// Members that are here.
    #[prost(uint32, tag = "9")]
    pub live_count: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListPipelinesResponse {
    #[prost(message, repeated, tag = "1")]
    pub pipelines: Vec<Pipeline>,
    #[prost(bool, tag = "2")]
    pub more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    Open = 0,
    Sealing = 1,
    Sealed = 2,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Container {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub pipeline: u64,
    #[prost(enumeration = "ContainerState", tag = "3")]
    pub state: i32,
    /// Block indexes given out.
    #[prost(uint32, tag = "4")]
    pub leased: u32,
    /// Bytes of its blocks, about.
    #[prost(uint64, tag = "5")]
    pub len: u64,
    #[prost(string, repeated, tag = "6")]
    pub members: Vec<String>,
    /// All members are known to have all blocks.
    #[prost(bool, tag = "7")]
    pub whole: bool,
    /// Of a sealed one: what came of the last comparison of what its members hold.
    #[prost(enumeration = "Compared", tag = "8")]
    pub compared: i32,
    /// The root of the hash tree that all members have; empty if they differ, or were not compared yet.
    #[prost(string, tag = "9")]
    pub root: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Compared {
    Never = 0,
    Alike = 1,
    Differ = 2,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
    #[prost(bool, tag = "2")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnderReplicatedRequest {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Trouble {
    /// Under-replicated: there are fewer copies than its file asks for.
    Short = 0,
    /// No node that is here has it.
    Missing = 1,
    /// One replica is damaged, and is being replaced.
    Damaged = 2,
    /// Replicas agree with their own checksums and not with each other. Nobody can say which one is right.
    Contradictory = 3,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ShortBlock {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub container: u64,
    #[prost(string, tag = "3")]
    pub path: String,
    #[prost(enumeration = "Trouble", tag = "4")]
    pub trouble: i32,
    /// The datanode that is to copy it, or whose replica is damaged; empty if nobody copies it.
    #[prost(string, tag = "5")]
    pub datanode: String,
    /// Datanodes that are up and have it.
    #[prost(uint32, tag = "6")]
    pub source_count: u32,
    #[prost(uint64, tag = "7")]
    pub len: u64,
    /// Copies that its file asks for.
    #[prost(uint32, tag = "8")]
    pub wanted_count: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnderReplicatedResponse {
    /// The first of them.
    #[prost(message, repeated, tag = "1")]
    pub blocks: Vec<ShortBlock>,
    /// Copies to make, as far as is known.
    #[prost(uint64, tag = "2")]
    pub short_count: u64,
    /// Blocks without a sound copy on a datanode that is up.
    #[prost(uint64, tag = "3")]
    pub missing_count: u64,
    /// Damaged replicas.
    #[prost(uint64, tag = "4")]
    pub damaged_count: u64,
    /// Containers that are still to be compared.
    #[prost(uint64, tag = "5")]
    pub suspect_count: u64,
    /// Blocks with fewer copies than their files ask for, but one at least.
    #[prost(uint64, tag = "6")]
    pub under_replicated_count: u64,
    /// Blocks of which a copy is damaged.
    #[prost(uint64, tag = "7")]
    pub corrupt_count: u64,
    /// Blocks of which a copy is being made, or waits for its turn.
    #[prost(uint64, tag = "8")]
    pub pending_count: u64,
    /// Bytes of copies that no datanode that could take them has room for, about.
    #[prost(uint64, tag = "9")]
    pub room_lacking_len: u64,
}
