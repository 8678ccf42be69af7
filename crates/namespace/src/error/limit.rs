//! Numbers and lengths that are too large, or too small. The limits themselves are constants beside their types, but
//! for those that the leader's settings give.

use types::{FsPath, InodeId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `client_host`: of a file that is created.
    Replication {
        replication: u16,
        path: FsPath,
        client_host: Option<String>,
    },
    BlockLenMin {
        len: u64,
        min: u64,
    },
    BlockLenMax {
        len: u64,
    },
    /// Of a block, as it was written.
    WrittenLen {
        len: u64,
    },
    /// The file would be too long with this block.
    FileLen {
        offset: u64,
        len: u64,
    },
    /// Blocks of a file that is to get one more.
    BlockCount {
        count: u32,
    },
    /// Blocks of a file that others are joined to.
    JoinedBlockCount,
    /// Of one call.
    ConcatSources {
        count: usize,
    },
    ConcatBlocks {
        count: u64,
    },
    /// Blocks behind `len` that one call would take away.
    TruncatedBlocks {
        path: FsPath,
        len: u64,
    },
    /// No truncation makes a file longer.
    TruncateLen {
        have: u64,
        wanted: u64,
    },
    /// Of a file that is put whole.
    PutLen {
        len: u64,
        block_len: u64,
    },
    ReservedIds {
        count: u32,
    },
    /// The beginning of the name.
    HolderName(String),
    /// Of an owner or group.
    OwnerNameLen {
        len: usize,
    },
    /// Levels above a directory.
    DirectoryDepth(InodeId),
    /// Levels below a directory, met while its tree is walked.
    TreeDepth(InodeId),
    /// Levels that the path may have after the rename, with what is below it.
    RenamedDepth {
        path: String,
        depth: usize,
    },
}
