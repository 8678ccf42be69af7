//! A block goes on under a new generation, perhaps elsewhere.

use crate::block::{self, check_len, doom_replicas, write_row};
use crate::context::Context;
use crate::effects::DoubtCause;
use crate::error::Failure;
use crate::error::block_fault::{BlockFault, BlockName, UpdateFault};
use crate::inode::write_node;
use crate::lease::find_under_construction;
use crate::record::BlockState;
use crate::reply::Reply;
use crate::usage::{self, Excess};
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Generation};

/// The new chain stands: replicas of lower generations are stale from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatePipeline {
    pub client: String,
    pub block: BlockId,
    pub old: Generation,
    pub new: Generation,
    /// Written so far; must not shrink.
    pub len: u64,
    /// The container whose members are the new nodes; `None` if it is still the same.
    pub home: Option<ContainerId>,
}
types::record!(UpdatePipeline { 0: client, 1: block, 2: old, 3: new, 4: len, 5: home });

impl UpdatePipeline {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let (mut node, (offset, mut row)) = find_under_construction(context.rows, self.block, &self.client)?;
        let home = self.home.unwrap_or(row.home);
        if self.new == row.generation && home == row.home && self.len == row.len {
            return Ok(Reply::Done); // A repeat, of a client that has no retry key.
        }
        let refuse = |fault| {
            let named = |generation| BlockName { block: self.block, generation };
            Err(BlockFault::Update { old: named(self.old), new: named(self.new), fault }.into())
        };
        if self.new <= row.generation && !mutation::is(Mutation::StaleUpdate) {
            return refuse(UpdateFault::NotNewer { recorded: row.named() });
        }
        if self.new > row.issued {
            return refuse(UpdateFault::NeverIssued);
        }
        if self.len < row.len && !mutation::is(Mutation::ShrinkingUpdate) {
            return refuse(UpdateFault::Shorter { len: self.len, recorded: row.len });
        }
        check_len(&node.inode, offset, self.len)?;
        if home != row.home {
            // Members of the old home that are not in the new one keep a stale replica.
            doom_replicas(context, row.block, row.home, row.generation)?;
            context.effects.doubt(row.block, home, DoubtCause::Moved);
        }
        let bill = usage::bill(context.rows, &node)?;
        block::resize(&mut node, row.len, self.len, 0)?;
        // In another container nothing of it is counted yet.
        let counted = if home == row.home { row.len } else { 0 };
        context.effects.wrote(row.block, home, counted, self.len);
        row.len = self.len;
        row.generation = self.new;
        block::move_home(context.rows, &mut row, home);
        row.state = BlockState::Written;
        write_row(context.rows, node.inode.id, offset, &row);
        write_node(context.rows, &node);
        bill.settle(context.rows, &node.inode, Excess::Recorded)?;
        Ok(Reply::Done)
    }
}
