//! Recording how much of the last block was written.

use crate::block::{self, check_len, last_row, write_row};
use crate::context::Context;
use crate::error::Failure;
use crate::inode::write_node;
use crate::lease::find_written;
use crate::record::BlockState;
use crate::reply::Reply;
use crate::usage::{self, Excess};
use types::{FileId, FsPath};

/// The block list is durable anyway; `last_len` becomes the recorded length of the last block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsync {
    pub path: FsPath,
    pub client: String,
    pub file: Option<FileId>,
    /// Of the last block, not of the file.
    pub last_len: Option<u64>,
}
types::record!(Fsync { 0: path, 1: client, 2: file, 3: last_len });

impl Fsync {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let (mut node, _) = find_written(context, &self.path, self.file, &self.client)?;
        let id = node.inode.id;
        let Some((len, (offset, mut row))) = self.last_len.zip(last_row(context.rows, &node.inode)?) else {
            return Ok(Reply::Done);
        };
        // Calls may overtake each other: a recorded length never shrinks.
        if !row.is_complete() && len > row.len {
            check_len(&node.inode, offset, len)?;
            let bill = usage::bill(context.rows, &node)?;
            block::resize(&mut node, row.len, len, 0)?;
            context.effects.wrote(row.block, row.home, row.len, len);
            row.len = len;
            row.state = BlockState::Written;
            write_row(context.rows, id, offset, &row);
            write_node(context.rows, &node);
            bill.settle(context.rows, &node.inode, Excess::Recorded)?;
        }
        Ok(Reply::Done)
    }
}
