//! What a client or node says of a block, and cannot be.

use types::{BlockId, ContainerId, FileId, Generation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockFault {
    Unknown(BlockId),
    /// Its file is gone, or closed.
    FileNotOpen(BlockName),
    Complete(BlockName),
    /// Committed under a generation that it does not have.
    OtherGeneration {
        have: BlockName,
        claimed: BlockName,
    },
    OtherLen {
        claimed: BlockName,
        len: u64,
        recorded: u64,
    },
    /// Longer than the blocks of its file, and no datanode has so much of it.
    TooLong {
        len: u64,
        file: FileId,
        len_max: u64,
    },
    /// Not the last one of its file. `None`: no block.
    NotLast {
        path: String,
        request: BlockRequest,
        claimed: Option<BlockName>,
        last: Option<BlockName>,
    },
    /// The request looks like a repetition, but something was written to the block that it would be answered with.
    Written {
        last: BlockName,
        len: u64,
    },
    /// A file has it already.
    Owned(BlockId),
    /// Another block stands at its place.
    Misplaced {
        found: BlockId,
        wanted: BlockId,
    },
    Update {
        old: BlockName,
        new: BlockName,
        fault: UpdateFault,
    },
    /// Another recovery has overtaken this one, or none is under way.
    RecoveryOver {
        block: BlockId,
        generation: Generation,
        current: Option<Generation>,
    },
    /// A recovery found none of the bytes that were acknowledged.
    Lost {
        block: BlockId,
        len: u64,
    },
    /// The container was empty, and is removed.
    HomeGone(ContainerId),
}

/// A block at one of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    pub block: BlockId,
    pub generation: Generation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRequest {
    /// For the next block.
    Add,
    /// To close the file.
    Complete,
}

/// Why a block does not go on under a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateFault {
    /// The generation is not above the recorded one.
    NotNewer {
        recorded: BlockName,
    },
    NeverIssued,
    Shorter {
        len: u64,
        recorded: u64,
    },
}
