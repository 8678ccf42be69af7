//! What readers are shown: status, blocks.

use crate::error::block_fault::BlockName;
use crate::record::{Body, Inode};
use types::{BlockId, ContainerId, FileId, Generation, InodeId, Millis};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
}
types::numbered!(Kind { 0 => File, 1 => Directory });

/// `T`: of texts, `N`: of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status<T = String, N = Vec<u8>> {
    pub kind: Kind,
    /// Last component; empty unless the status is an entry of a listing.
    pub name: N,
    /// Of an open file: with what is recorded of the last block. 0 for directories.
    pub len: u64,
    pub mode: u16,
    pub owner: T,
    pub group: T,
    pub modified: Millis,
    /// 0 for directories, unless it was set.
    pub accessed: Millis,
    /// 0 for directories, as is `block_len`.
    pub replication: u16,
    pub block_len: u64,
    pub id: InodeId,
    /// 0 for files.
    pub child_count: u32,
    /// It has an access list beyond its mode. Not kept with the outcome of a call: who repeats one may do without.
    pub acl: bool,
}
types::record!(Status {
    0: kind, 1: name, 2: len, 3: mode, 4: owner, 5: group, 6: modified, 7: accessed, 8: replication, 9: block_len,
    10: id, 11: child_count,
} without { acl });

/// A status that borrows its texts from where it was found.
pub type StatusRow<'a> = Status<&'a str, &'a [u8]>;

impl Status {
    pub fn row(&self) -> StatusRow<'_> {
        let Self { kind, len, mode, modified, accessed, replication, block_len, id, child_count, acl, .. } = *self;
        let (name, owner, group) = (self.name.as_slice(), self.owner.as_str(), self.group.as_str());
        Status { kind, name, len, mode, owner, group, modified, accessed, replication, block_len, id, child_count, acl }
    }
}

impl StatusRow<'_> {
    pub fn to_status(&self) -> Status {
        let Self { kind, len, mode, modified, accessed, replication, block_len, id, child_count, acl, .. } = *self;
        let (name, owner, group) = (self.name.to_vec(), self.owner.to_owned(), self.group.to_owned());
        Status { kind, name, len, mode, owner, group, modified, accessed, replication, block_len, id, child_count, acl }
    }
}

/// One block of a file. The nodes that hold it are those of its `home` container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    pub file: FileId,
    pub block: BlockId,
    pub generation: Generation,
    /// Recorded so far, if not `complete`; often 0 then.
    pub len: u64,
    /// Of its first byte in the file.
    pub offset: u64,
    pub home: ContainerId,
    /// Not under construction.
    pub complete: bool,
    /// The file under which its replicas were written, where that is another one; see [`BlockView::replica_file`].
    pub written_for: Option<FileId>,
}
types::record!(BlockView { 0: file, 1: block, 2: generation, 3: len, 4: offset, 5: home, 6: complete, 7: written_for });

impl BlockView {
    /// The file that the records of its replicas name, and so its tokens: that of a source after *concat*, for ever.
    pub fn replica_file(&self) -> FileId {
        self.written_for.unwrap_or(self.file)
    }
}

/// A block as a client names it, with the length it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
}
types::record!(BlockRef { 0: block, 1: generation, 2: len });

impl BlockRef {
    pub(crate) fn named(&self) -> BlockName {
        BlockName { block: self.block, generation: self.generation }
    }
}

/// Blocks of a file that overlap a range, and what a reader needs beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBlocks {
    pub status: Status,
    /// Complete blocks only: a reader asks the nodes for the length of the block under construction.
    pub file_len: u64,
    pub blocks: Vec<BlockView>,
    /// The last block of the file, whatever the range.
    pub last: Option<BlockView>,
    pub under_construction: bool,
}

impl FileBlocks {
    /// As HDFS counts: a file without blocks has no complete last block.
    pub fn last_complete(&self) -> bool {
        self.last.is_some_and(|last| last.complete)
    }
}

/// A block no file owns any more, or that moved: replicas of at most this generation in this container must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoomedBlock {
    pub block: BlockId,
    pub home: ContainerId,
    pub generation: Generation,
}
types::record!(DoomedBlock { 0: block, 1: home, 2: generation });

pub(crate) fn status_of(inode: &Inode, name: &str) -> Status {
    status_row(inode, name.as_bytes()).to_status()
}

/// As [`status_of`], without a copy of the texts.
pub(crate) fn status_row<'a, T: AsRef<str>>(inode: &'a Inode<T>, name: &'a [u8]) -> StatusRow<'a> {
    let directory = Status {
        kind: Kind::Directory,
        name,
        len: 0,
        mode: inode.mode,
        modified: inode.modified,
        accessed: inode.accessed,
        replication: 0,
        block_len: 0,
        id: inode.id,
        child_count: inode.child_count(),
        acl: !inode.extra.acl.is_empty(),
        owner: inode.owner.as_ref(),
        group: inode.group.as_ref(),
    };
    match &inode.body {
        Body::Directory { .. } => directory,
        Body::File(file) => Status {
            kind: Kind::File,
            len: file.len,
            replication: file.replication,
            block_len: file.block_len,
            ..directory
        },
    }
}
