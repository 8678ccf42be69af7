//! What the leader must know before it proposes a change of an open file.

use crate::block::{self, last_row};
use crate::caller::Caller;
use crate::error::{Answer, Failure, split};
use crate::inode::read_node;
use crate::lease::{check_writer, find_file, find_under_construction};
use crate::next_block::{Step, next_step};
use crate::record::Inode;
use crate::view::{BlockRef, BlockView, Status, status_of};
use types::rows::{Rows, RowsError};
use types::{BlockId, FileId, FsPath};

/// An open file as its writer may ask about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    pub status: Status,
    pub last: Option<BlockView>,
}

/// The file `client` is writing; refused as `AddBlock` would be. The id wins over the path.
pub fn writing(rows: &dyn Rows, caller: &Caller, path: &FsPath, file: Option<FileId>, client: &str) -> Answer<Writing> {
    split(find_writing(rows, caller, path, file, client).map(|(writing, ..)| writing))
}

/// What an `AddBlock` would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    pub replication: u16,
    pub block_len: u64,
    /// The request is a retry and this block is its answer: no id needs to be allocated. (`AddBlock` finds the same.)
    pub existing: Option<BlockView>,
}

/// Looks ahead of `AddBlock`, so that the leader allocates only when a block is needed.
pub fn plan_block(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
    previous: Option<&BlockRef>,
) -> Answer<BlockPlan> {
    let run = || {
        let (Writing { status, .. }, inode, path) = find_writing(rows, caller, path, file, client)?;
        let existing = match next_step(rows, &path, &inode, previous)? {
            Step::Again(placed) => Some(block::view(status.id, &placed)),
            Step::Behind(_) => None,
        };
        Ok(BlockPlan { replication: status.replication, block_len: status.block_len, existing })
    };
    split(run())
}

/// The block `client` is writing; refused as `UpdatePipeline` would be.
pub fn written_block(rows: &dyn Rows, block: BlockId, client: &str) -> Answer<BlockView> {
    split(find_under_construction(rows, block, client).map(|(node, placed)| block::view(node.inode.id, &placed)))
}

/// True if `client` writes the block, and `len` is more than blocks of its file have: it is held against what nodes
/// have.
pub fn is_outgrown(rows: &dyn Rows, view: &BlockView, client: &str, len: u64) -> Result<bool, RowsError> {
    // Nearly always it is not, and one row says so.
    let fits = read_node(rows, view.file)?.is_none_or(|node| len <= block::block_len(&node.inode));
    Ok(!fits && split(find_under_construction(rows, view.block, client))?.is_ok())
}

fn find_writing(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
) -> Result<(Writing, Inode, String), Failure> {
    let (node, its_path) = find_file(rows, caller, path, file, client)?;
    check_writer(rows, &node, &its_path, path, client)?;
    let last = last_row(rows, &node.inode)?.map(|placed| block::view(node.inode.id, &placed));
    Ok((Writing { status: status_of(&node.inode, ""), last }, node.inode, its_path))
}
