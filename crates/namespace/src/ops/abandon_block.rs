//! Giving up a block that nobody could be reached for.

use crate::block::{self, doom_row, last_row};
use crate::context::Context;
use crate::error::Failure;
use crate::inode::write_node;
use crate::lease::find_written;
use crate::reply::Reply;
use crate::usage::{self, Excess};
use types::{BlockId, FileId, FsPath};

/// Drops the last block, if it is under construction. A block that is gone already is a repeat, and fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonBlock {
    pub path: FsPath,
    pub client: String,
    pub file: Option<FileId>,
    pub block: BlockId,
}
types::record!(AbandonBlock { 0: path, 1: client, 2: file, 3: block });

impl AbandonBlock {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let (mut node, _) = find_written(context, &self.path, self.file, &self.client)?;
        let id = node.inode.id;
        match last_row(context.rows, &node.inode)? {
            Some((offset, row)) if row.block == self.block && !row.is_complete() => {
                let bill = usage::bill(context.rows, &node)?;
                doom_row(context, id, offset, &row)?;
                block::resize(&mut node, row.len, 0, -1)?;
                write_node(context.rows, &node);
                bill.settle(context.rows, &node.inode, Excess::Recorded)?;
            }
            _ => {}
        }
        Ok(Reply::Done)
    }
}
