//! Closing a file.

use crate::block::{self, commit, last_row, write_row};
use crate::context::Context;
use crate::error::Failure;
use crate::error::block_fault::{BlockFault, BlockRequest};
use crate::inode::Node;
use crate::lease::{check_writer, close, find_file};
use crate::record::{BlockRow, BlockState};
use crate::reply::Reply;
use crate::usage::{self, Excess};
use crate::view::BlockRef;
use types::rows::{Rows, RowsError};
use types::{FileId, FsPath};

/// Commits the last block, sets length and modification time, ends the lease. Answers `Reply::Bool`; a repeat is
/// `true`. That the replicas of all blocks were reported is the leader's business, before this is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    pub path: FsPath,
    pub client: String,
    pub file: Option<FileId>,
    pub last: Option<BlockRef>,
    /// A datanode has the last block whole at that length, so it may be longer than the blocks of its file.
    pub seen: bool,
}
types::record!(Complete { 0: path, 1: client, 2: file, 3: last, 4: seen });

impl Complete {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let (mut node, path) = find_file(context.rows, context.caller, &self.path, self.file, &self.client)?;
        if let Err(refused) = check_writer(context.rows, &node, &path, &self.path, &self.client) {
            return if self.is_repeat(context.rows, &node)? { Ok(Reply::Bool(true)) } else { Err(refused) };
        }
        let id = node.inode.id;
        let bill = usage::bill(context.rows, &node)?;
        match (&self.last, last_row(context.rows, &node.inode)?) {
            (Some(claim), Some(last)) if claim.block == last.1.block => {
                commit(context, &mut node, last, claim, self.seen)?;
            }
            (Some(claim), last) => {
                let (claimed, last) = (Some(claim.named()), last.map(|(_, row)| row.named()));
                return Err(BlockFault::NotLast { path, request: BlockRequest::Complete, claimed, last }.into());
            }
            (None, Some((offset, row))) if row.state == BlockState::Reopened => {
                // Opened for appending and closed again: some clients do not name the block then.
                write_row(context.rows, id, offset, &BlockRow { state: BlockState::Complete, ..row });
            }
            (None, Some((_, row))) if !row.is_complete() => return Ok(Reply::Bool(false)),
            (None, _) => {}
        }
        close(context, &mut node);
        // The bytes are there: a block longer than it should be is no reason to keep the file open.
        bill.settle(context.rows, &node.inode, Excess::Recorded)?;
        Ok(Reply::Bool(true))
    }

    /// The file is closed already, and just as this client saw it.
    fn is_repeat(&self, rows: &dyn Rows, node: &Node) -> Result<bool, RowsError> {
        if node.inode.file().is_none_or(|file| file.open.is_some()) {
            return Ok(false);
        }
        Ok(match (&self.last, last_row(rows, &node.inode)?) {
            (None, None) => true,
            // It was dropped when the file was closed.
            (Some(claim), _) if claim.len == 0 => block::find(rows, claim.block)?.is_none(),
            (Some(claim), Some((_, row))) => {
                (claim.block, claim.generation, claim.len) == (row.block, row.generation, row.len)
            }
            _ => false,
        })
    }
}
