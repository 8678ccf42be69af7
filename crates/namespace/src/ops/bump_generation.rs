//! A new generation for a block whose chain broke (HDFS: updateBlockForPipeline).

use crate::block::{self, write_row};
use crate::context::Context;
use crate::error::Failure;
use crate::lease::find_under_construction;
use crate::record::BlockState;
use crate::reply::Reply;
use types::BlockId;

/// Issues a generation above all issued before. The block itself keeps its own until `UpdatePipeline` names the new
/// one; only that the new one was issued is remembered, so that a recovery goes above it. Answers `Reply::Generation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BumpGeneration {
    pub block: BlockId,
    pub client: String,
}
types::record!(BumpGeneration { 0: block, 1: client });

impl BumpGeneration {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let (node, (offset, mut row)) = find_under_construction(context.rows, self.block, &self.client)?;
        block::issue_generation(context.rows, &mut row)?;
        row.state = BlockState::Written;
        write_row(context.rows, node.inode.id, offset, &row);
        Ok(Reply::Generation(row.issued))
    }
}
