//! Listing blocks that moved before there was a list of them.

use super::Context;
use crate::block;
use crate::error::{Failure, corrupt};
use crate::request::Reply;
use crate::tables::{OWNER, VISITOR, owner_key, split_inode};
use serde::{Deserialize, Serialize};
use std::ops::{Bound, ControlFlow};
use types::BlockId;
use types::rows::{Rows, RowsError};

/// Looks at the next `count` blocks that were not looked at yet. Answers `Reply::Bool`: true when there are no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexVisitors {
    pub count: u32,
}

/// Under the empty key of VISITOR: all blocks below this are listed.
const CURSOR: &[u8] = &[];

impl IndexVisitors {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let Some(from) = next_unlisted(context.rows)? else { return Ok(Reply::Bool(true)) };
        let mut blocks = Vec::new();
        let limit = self.count.max(1) as usize;
        context.rows.scan(OWNER, Bound::Included(&owner_key(from)), &mut |key, _| {
            blocks.push(split_inode(key).map(|id| BlockId(id.0)));
            if blocks.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let done = blocks.len() < limit;
        let mut cursor = BlockId(u64::MAX);
        for block in blocks {
            let block = block.ok_or_else(|| corrupt("list moved blocks", "a key of a wrong length"))?;
            if let Some((_, (_, row))) = block::find(context.rows, block)? {
                block::list_visitor(context.rows, &row);
            }
            if !done {
                cursor = BlockId(block.0 + 1);
            }
        }
        context.rows.put(VISITOR, CURSOR, cursor.0.to_be_bytes().to_vec());
        Ok(Reply::Bool(done))
    }
}

/// The first block not looked at yet; `None` if all are listed.
pub(crate) fn next_unlisted(rows: &dyn Rows) -> Result<Option<BlockId>, RowsError> {
    let cursor = match rows.get(VISITOR, CURSOR)? {
        None => 0,
        Some(bytes) => split_inode(&bytes).ok_or_else(|| corrupt("list moved blocks", "a damaged cursor"))?.0,
    };
    Ok((cursor != u64::MAX).then_some(BlockId(cursor)))
}
