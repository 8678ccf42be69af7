//! Work that takes a while: repair, draining, balancing, scrubbing.

use prost::Message;

pub const LIST_JOBS: &str = "listJobs";
pub const STOP_JOB: &str = "stopJob";
pub const BEGIN_BALANCE: &str = "beginBalance";
pub const BEGIN_SCRUB: &str = "beginScrub";
pub const BEGIN_DISK_BALANCE: &str = "beginDiskBalance";

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListJobsRequest {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum JobKind {
    Unknown = 0,
    Repair = 1,
    Drain = 2,
    Balance = 3,
    Scrub = 4,
    BalanceDisks = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum JobState {
    Unknown = 0,
    Running = 1,
    /// It cannot go on by itself; the note says why. It does when that has changed.
    Waiting = 2,
    Done = 3,
    Stopped = 4,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Job {
    /// The same whoever leads; but jobs of repair, which nobody asked for, each leader counts anew.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(enumeration = "JobKind", tag = "2")]
    pub kind: i32,
    /// A datanode, as a rule; empty for all.
    #[prost(string, tag = "3")]
    pub subject: String,
    #[prost(enumeration = "JobState", tag = "4")]
    pub state: i32,
    /// How long it runs, or ran.
    #[prost(uint64, tag = "5")]
    pub ran_ms: u64,
    #[prost(uint64, tag = "6")]
    pub done_len: u64,
    #[prost(uint64, tag = "7")]
    pub total_len: u64,
    /// Containers or replicas, as the kind has it.
    #[prost(uint64, tag = "8")]
    pub done_count: u64,
    #[prost(uint64, tag = "9")]
    pub total_count: u64,
    /// In the last while; 0 if nothing moves.
    #[prost(uint64, tag = "10")]
    pub len_per_s: u64,
    /// Absent if nobody can say.
    #[prost(uint64, optional, tag = "11")]
    pub left_ms: Option<u64>,
    /// Damaged replicas that a scrub found, and those of them that are replaced.
    #[prost(uint64, tag = "12")]
    pub found_count: u64,
    #[prost(uint64, tag = "13")]
    pub mended_count: u64,
    /// For people.
    #[prost(string, tag = "14")]
    pub note: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListJobsResponse {
    #[prost(message, repeated, tag = "1")]
    pub jobs: Vec<Job>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct StopJobRequest {
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct StopJobResponse {}

/// Containers are to move from fuller datanodes to emptier ones.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BeginBalanceRequest {
    /// How far a datanode's fullness may be from the mean of all, in parts of 10⁹.
    #[prost(uint64, tag = "1")]
    pub within: u64,
}

/// Every replica is to be read against its checksums.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BeginScrubRequest {
    /// Ids, beginnings of ids, or addresses; none for all datanodes.
    #[prost(string, repeated, tag = "1")]
    pub datanodes: Vec<String>,
    /// Of each datanode; 0 for what is usual.
    #[prost(uint64, tag = "2")]
    pub len_per_s: u64,
}

/// Replicas are to move from fuller disks to emptier ones of the same datanode.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BeginDiskBalanceRequest {
    /// Ids, beginnings of ids, or addresses; none for all datanodes.
    #[prost(string, repeated, tag = "1")]
    pub datanodes: Vec<String>,
    /// Of each datanode; 0 for what is usual.
    #[prost(uint64, tag = "2")]
    pub len_per_s: u64,
    /// How far a disk's fullness may be from that of all disks of its datanode, in parts of 10⁹.
    #[prost(uint64, tag = "3")]
    pub within: u64,
}

/// Where a job was begun.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BegunResponse {
    #[prost(uint64, tag = "1")]
    pub job: u64,
}
