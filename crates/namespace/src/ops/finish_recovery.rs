//! The end of a recovery: the last block has one length again.

use crate::block::{self, check_end, doom_row, last_row, write_row};
use crate::context::Context;
use crate::damage;
use crate::effects::DoubtCause;
use crate::error::Failure;
use crate::error::absent::Absent;
use crate::error::block_fault::BlockFault;
use crate::inode::find_standing;
use crate::lease::close;
use crate::record::BlockState;
use crate::reply::Reply;
use crate::usage::{self, Excess};
use types::{BlockId, FileId, Generation};

/// Closes the file. A recovery that a later one overtook is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishRecovery {
    pub file: FileId,
    pub block: BlockId,
    /// As `BeginRecovery` issued it.
    pub generation: Generation,
    /// What the replicas were cut to; `None` or 0: nothing was found, the block goes if nothing of it was ever
    /// recorded.
    pub len: Option<u64>,
}
types::record!(FinishRecovery { 0: file, 1: block, 2: generation, 3: len });

impl FinishRecovery {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let Some((mut node, _)) = find_standing(context.rows, self.file)? else {
            return Err(Absent::Inode(self.file).into());
        };
        let open = node.inode.file().and_then(|file| file.open.as_ref());
        let last = last_row(context.rows, &node.inode)?.filter(|(_, row)| row.block == self.block);
        if open.is_none() && last.as_ref().is_none_or(|(_, row)| row.generation == self.generation) {
            return Ok(Reply::Done); // A repeat.
        }
        let current = open.and_then(|open| open.recovery);
        let Some((offset, mut row)) = last.filter(|_| current == Some(self.generation)) else {
            return Err(BlockFault::RecoveryOver { block: self.block, generation: self.generation, current }.into());
        };
        debug_assert!(
            damage::is_expected() || row.issued == self.generation,
            "others are given generations of {row:?}"
        );
        let bill = usage::bill(context.rows, &node)?;
        match self.len {
            // The last who can say no: these bytes were acknowledged, so somebody has them, who was not asked or did
            // not answer.
            None | Some(0) if row.len > 0 => {
                return Err(BlockFault::Lost { block: self.block, len: row.len }.into());
            }
            None | Some(0) => {
                doom_row(context, self.file, offset, &row)?;
                block::resize(&mut node, row.len, 0, -1)?;
            }
            Some(len) => {
                // Nodes have it, so it is no claim of a writer; and one may go on in a block, as HBase's does.
                check_end(offset, len)?;
                // May be less than recorded: some writers record what they sent, not what was acknowledged.
                block::resize(&mut node, row.len, len, 0)?;
                row.len = len;
                row.generation = self.generation;
                row.issued = self.generation;
                row.state = BlockState::Complete;
                write_row(context.rows, self.file, offset, &row);
                context.effects.doubt(row.block, row.home, DoubtCause::Recovered);
            }
        }
        close(context, &mut node);
        bill.settle(context.rows, &node.inode, Excess::Recorded)?;
        Ok(Reply::Done)
    }
}
