//! Why a volume did not do what it was asked, and what the caller should do about it.

use kv::KvError;
use std::fmt;
use std::path::Path;
use types::rows::RowsError;
use types::{BlockId, ContainerId, Generation, NodeId, ReplicaState};

pub(crate) type Result<T, E = ReplicaError> = std::result::Result<T, E>;

/// Why a replica was not served, written or changed. Two variants differ only if the caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error("{block} is not on this volume")]
    NotFound { block: BlockId },
    #[error("{block} exists already, at {have}")]
    Exists { block: BlockId, have: Generation },
    #[error("{block} is at {have}, the request names {want}")]
    Stale { block: BlockId, have: Generation, want: Generation },
    #[error("{block} is {state}; this needs it to be {needed}")]
    State { block: BlockId, state: ReplicaState, needed: &'static str },
    #[error("{block} has {have} bytes here, the request needs {need}")]
    Length { block: BlockId, have: u64, need: String },
    #[error("packet for {block} starts at {offset}, but only {received} bytes came so far")]
    Gap { block: BlockId, offset: u64, received: u64 },
    #[error("packet for {block} at {offset} has {reason}")]
    Packet { block: BlockId, offset: u64, reason: String },
    #[error("another writer or a recovery took over {block} under {by}")]
    Fenced { block: BlockId, by: Generation },
    #[error("{block}: the bytes at {offset} do not agree with their checksum")]
    Corrupt { block: BlockId, offset: u64 },
    #[error("{op} in {container}: {source}")]
    Io { op: DiskOp, container: ContainerId, source: std::io::Error },
    #[error("the volume takes no more writes: {reason}")]
    VolumeFailed { reason: String },
    #[error("the volume's index: {0}")]
    Index(#[from] RowsError),
    #[error("the disk that is needed here does not answer; try another node")]
    Hangs,
}

/// What was being done to the disk, and to what of it. Decisions (a failed sync fails the volume) match on this, never
/// on a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    Open(&'static str),
    Create(&'static str),
    List(&'static str),
    /// At lengths and space, not at bytes.
    Look(&'static str),
    Read(&'static str),
    Write(&'static str),
    Cut(&'static str),
    Sync(&'static str),
    Rename(&'static str),
    Remove(&'static str),
}

impl fmt::Display for DiskOp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, what) = match self {
            Self::Open(what) => ("open", what),
            Self::Create(what) => ("create", what),
            Self::List(what) => ("list", what),
            Self::Look(what) => ("look", what),
            Self::Read(what) => ("read", what),
            Self::Write(what) => ("write", what),
            Self::Cut(what) => ("cut", what),
            Self::Sync(what) => ("sync", what),
            Self::Rename(what) => ("rename", what),
            Self::Remove(what) => ("remove", what),
        };
        write!(to, "{verb} {what}")
    }
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The caller's picture is old: ask the metadata server again.
    RefreshLocations,
    /// This replica does not serve; another one may.
    ReadElsewhere,
    /// This volume does not take the bytes; another one may.
    WriteElsewhere,
    /// The request contradicts the protocol: answer with the error and close the connection.
    Refuse,
    /// This writer has lost its replica: stop, and acknowledge nothing more.
    StopWriting,
    /// This replica is damaged: report it, and read elsewhere.
    ReportBad,
}

impl ReplicaError {
    pub fn advice(&self) -> Advice {
        match self {
            Self::NotFound { .. } | Self::Stale { .. } => Advice::RefreshLocations,
            Self::State { .. } | Self::Hangs => Advice::ReadElsewhere,
            Self::Exists { .. } | Self::Length { .. } | Self::Gap { .. } | Self::Packet { .. } => Advice::Refuse,
            Self::Fenced { .. } => Advice::StopWriting,
            Self::Corrupt { .. } => Advice::ReportBad,
            Self::Io { .. } | Self::VolumeFailed { .. } | Self::Index(_) => Advice::WriteElsewhere,
        }
    }

    /// True if this tells of the process or the machine, such as too many open files, and nothing of the replica.
    pub fn is_momentary(&self) -> bool {
        matches!(self, Self::Io { source, .. } if io::limit::is_reached(source))
    }

    /// True if the replica itself is damaged: one that cannot be read is as bad as one that reads wrong.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Io { .. }) && !self.is_momentary()
    }

    /// True if the disk had no room: the volume is sound, it only takes no more.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }
}

pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Why a volume did not open.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("{dir} is in use by another process; stop that one, or give this one a directory of its own")]
    Locked { dir: String },
    #[error("{path} is not a volume's identity: {reason}; restore it, or start with an empty directory")]
    Identity { path: String, reason: String },
    #[error(
        "{dir} is not empty, but {version} and its copy {copy} are gone, and without what they say nothing in packs is \
         found; restore one of them from a backup, or start with an empty directory: other nodes have the replicas"
    )]
    IdentityLost { dir: String, version: String, copy: String },
    #[error("{dir} has on-disk format {have}, this program reads up to {known}; use the newer program")]
    Format { dir: String, have: u32, known: u32 },
    #[error("{dir} belongs to node {have}, not to {want}; give each node directories of its own")]
    Foreign { dir: String, have: NodeId, want: NodeId },
    #[error("{dir} belongs to the block pool {have}, the cluster's is {want}; it was made for another cluster")]
    ForeignPool { dir: String, have: String, want: String },
    #[error("{op} {path}: {source}")]
    Io { op: &'static str, path: String, source: std::io::Error },
    #[error("the index in {dir}: {reason}; if its disk is sound, remove that directory and it is built anew")]
    Index { dir: String, reason: String },
    #[error(
        "the index in {dir}: this process has no room among its addresses for one more; give it fewer disks, run its \
         roles as processes of their own, or raise `ulimit -v`"
    )]
    Addresses { dir: String },
    #[error(transparent)]
    Replica(#[from] ReplicaError),
}

impl VolumeError {
    pub(crate) fn of_index(dir: &Path, error: &KvError) -> Self {
        let text = dir.display().to_string();
        match error {
            KvError::Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => {
                Self::Addresses { dir: text }
            }
            error => Self::Index { dir: text, reason: error.to_string() },
        }
    }
}
