//! Blocks get another home, where their replicas are already.

use crate::block::{self, write_row};
use crate::context::Context;
use crate::effects::DoubtCause;
use crate::error::Failure;
use crate::reply::Reply;
use types::{BlockId, ContainerId, Generation};

/// Moves those blocks that are still as they were when they were copied; the others stay where they are. Replicas that
/// are not in the new home are surplus from here on. They are not doomed: some nodes may be of both homes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveBlocks {
    pub moves: Vec<BlockMove>,
}
types::record!(MoveBlocks { 0: moves });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMove {
    pub block: BlockId,
    pub generation: Generation,
    pub from: ContainerId,
    pub to: ContainerId,
}
types::record!(BlockMove { 0: block, 1: generation, 2: from, 3: to });

impl MoveBlocks {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        for BlockMove { block, generation, from, to } in &self.moves {
            let Some((file, (offset, mut row))) = block::find(context.rows, *block)? else { continue };
            if row.is_complete() && row.home == *from && row.generation == *generation {
                block::move_home(context.rows, &mut row, *to);
                write_row(context.rows, file, offset, &row);
                context.effects.doubt(*block, *to, DoubtCause::Moved);
            }
        }
        Ok(Reply::Done)
    }
}
