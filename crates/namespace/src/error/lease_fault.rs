//! A client writes without a lease.

use super::block_fault::BlockName;
use types::{BlockId, FileId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseFault {
    /// What it says it writes is a directory.
    NotAFile(Writing),
    NotOpen(Writing),
    OtherHolder {
        holder: String,
        writing: Writing,
    },
    /// The block belongs to a file that another client writes.
    BlockOfOther {
        block: BlockName,
        client: String,
    },
    /// These ids are not on lease: they are used, or were never given out.
    IdsNotLeased {
        block: BlockId,
        file: Option<FileId>,
    },
}

/// The file that a client says it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    pub path: String,
    pub file: FileId,
    pub client: String,
    /// Files that this client has open, as far as they were counted.
    pub open_count: usize,
}
