//! Replicas were deleted: nobody needs to remember their block.

use crate::context::Context;
use crate::error::Failure;
use crate::record::{DoomedRow, decode};
use crate::reply::Reply;
use crate::tables::{DOOMED_BLOCK, doomed_block_key};
use crate::view::DoomedBlock;

/// Forgets blocks as `read::doomed_blocks` listed them; one that was doomed again since, at a higher generation, stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetDoomed {
    pub blocks: Vec<DoomedBlock>,
}
types::record!(ForgetDoomed { 0: blocks });

impl ForgetDoomed {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        for doomed in &self.blocks {
            let key = doomed_block_key(doomed.block, doomed.home);
            if let Some(bytes) = context.rows.get(DOOMED_BLOCK, &key)?
                && decode::<DoomedRow>("forget a block", &bytes)?.generation <= doomed.generation
            {
                context.rows.delete(DOOMED_BLOCK, &key);
            }
        }
        Ok(Reply::Done)
    }
}
