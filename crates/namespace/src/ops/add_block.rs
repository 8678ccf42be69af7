//! The next block of an open file.

use crate::block::{self, Placed, commit, hook_row, last_row};
use crate::context::Context;
use crate::damage;
use crate::effects::DoubtCause;
use crate::error::block_fault::BlockFault;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError};
use crate::inode::{next_generation, write_node};
use crate::lease::find_written;
use crate::limits::BLOCK_COUNT_MAX;
use crate::next_block::{Step, next_step};
use crate::record::{BlockRow, BlockState, File};
use crate::reply::Reply;
use crate::usage::{self, Excess};
use crate::view::BlockRef;
use types::{BlockId, ContainerId, FileId, FsPath, Generation};

/// Commits `previous` and starts a new block with the id the leader brings. Answers `Reply::Block`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddBlock {
    pub path: FsPath,
    pub client: String,
    /// Wins over `path`, since the file may have been renamed meanwhile. `None` or 0: go by the path.
    pub file: Option<FileId>,
    pub previous: Option<BlockRef>,
    pub allocated: Allocated,
}
types::record!(AddBlock { 0: path, 1: client, 2: file, 3: previous, 4: allocated });

/// What the leader took from a container it holds ids of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    pub block: BlockId,
    pub home: ContainerId,
}
types::record!(Allocated { 0: block, 1: home });

impl AddBlock {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        self.run_as(context, None)
    }

    /// `leased`: the generation under which the block is written already.
    pub(crate) fn run_as(&self, context: &mut Context<'_>, leased: Option<Generation>) -> Result<Reply, Failure> {
        let (mut node, path) = find_written(context, &self.path, self.file, &self.client)?;
        let id = node.inode.id;
        let bill = usage::bill(context.rows, &node)?;
        let mut replaces = None;
        match next_step(context.rows, &path, &node.inode, self.previous.as_ref())? {
            Step::Again(existing) => return Ok(Reply::Block(block::view(id, &existing))),
            Step::Behind(Some((last, claim))) => {
                replaces = (!last.1.is_complete() && claim.len == 0).then_some(last.1.block);
                commit(context, &mut node, last, &claim, false)?;
            }
            Step::Behind(None) => {}
        }
        let offset = node.inode.file().map_or(0, |file| file.len);
        let is_end = |(start, row): Placed| row.is_complete() && start.checked_add(row.len) == Some(offset);
        debug_assert!(
            damage::is_expected() || last_row(context.rows, &node.inode)?.is_none_or(is_end),
            "{id} does not end with a whole block"
        );
        check_count(node.inode.file())?;
        let Allocated { block, home } = self.allocated;
        if block::find(context.rows, block)?.is_some() {
            return Err(BlockFault::Owned(block).into());
        }
        let generation = match leased {
            Some(leased) => leased,
            None => next_generation(context.rows)?,
        };
        let row = BlockRow {
            block,
            generation,
            issued: generation,
            len: 0,
            home,
            state: BlockState::Written,
            replaces,
            written_for: None,
        };
        hook_row(context.rows, id, offset, &row);
        if leased.is_some() {
            context.effects.doubt(block, home, DoubtCause::Leased);
        }
        block::resize(&mut node, 0, 0, 1)?;
        write_node(context.rows, &node);
        bill.settle(context.rows, &node.inode, Excess::Refused)?;
        Ok(Reply::Block(block::view(id, &(offset, row))))
    }
}

fn check_count(file: Option<&File>) -> Result<(), NsError> {
    match file {
        Some(file) if file.block_count >= BLOCK_COUNT_MAX => Err(Limit::BlockCount { count: file.block_count }.into()),
        _ => Ok(()),
    }
}
