//! What is said of one replica, wherever it lies.

use serde::{Deserialize, Serialize};
use types::{BlockId, ChecksumSpec, ContainerId, FileId, Generation, ReplicaState};

/// Whose bytes a replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub block: BlockId,
    pub generation: Generation,
    /// The file that owns the block; 0 as long as nobody has said.
    pub file: FileId,
    /// The container that decides where the block lives; 0 as long as nobody has said.
    pub home: ContainerId,
    pub checksum: ChecksumSpec,
}

impl Identity {
    /// The container whose directory takes the replica.
    pub(crate) fn shelf(&self) -> ContainerId {
        if self.home.0 == 0 { self.block.born_in() } else { self.home }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    pub identity: Identity,
    /// Bytes on disk. Of a replica that waits for recovery: at most so many, until recovery has verified them.
    pub len: u64,
    /// Bytes that readers may be told of: acknowledged by this node and all below; 0 if nobody may read.
    pub visible_len: u64,
    pub state: ReplicaState,
    /// A [`Writer`](crate::Writer) is at it now.
    pub has_writer: bool,
}
