//! The next block of an open file, which its writer had on lease and began to write before it was said to be the
//! file's.

use super::add_block::AddBlock;
use crate::context::Context;
use crate::error::Failure;
use crate::error::block_fault::BlockFault;
use crate::error::lease_fault::LeaseFault;
use crate::inode::read_counters;
use crate::reply::Reply;
use crate::tables::{DOOMED_BLOCK, doomed_block_key};
use types::Generation;

/// As [`AddBlock`], under the generation that came with the lease. That the lease still stands is the leader's
/// business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddLeased {
    pub add: AddBlock,
    pub generation: Generation,
}
types::record!(AddLeased { 0: add, 1: generation });

impl AddLeased {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let allocated = self.add.allocated;
        let issued = read_counters(context.rows)?.map_or(Generation(0), |counters| counters.generation);
        let doomed = context.rows.get(DOOMED_BLOCK, &doomed_block_key(allocated.block, allocated.home))?.is_some();
        if self.generation == Generation(0) || self.generation > issued || doomed {
            return Err(LeaseFault::IdsNotLeased { block: allocated.block, file: None }.into());
        }
        let reply = self.add.run_as(context, Some(self.generation))?;
        match &reply {
            Reply::Block(view) if view.block != allocated.block => {
                Err(BlockFault::Misplaced { found: view.block, wanted: allocated.block }.into())
            }
            _ => Ok(reply),
        }
    }
}
