//! The next block of an open file.

use super::Context;
use crate::block::{self, Placed, commit, hook_row, last_row, named, row_before};
use crate::effects::DoubtCause;
use crate::error::{Failure, NsError};
use crate::inode::{next_generation, write_node};
use crate::lease::find_written;
use crate::limits::BLOCK_COUNT_MAX;
use crate::record::{BlockRow, BlockState, File, Inode};
use crate::request::Reply;
use crate::usage::{self, Excess};
use types::rows::Rows;
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

/// A block as a client names it, with the length it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
}
types::record!(BlockRef { 0: block, 1: generation, 2: len });

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
        check_count(node.inode.file())?;
        let Allocated { block, home } = self.allocated;
        if block::find(context.rows, block)?.is_some() {
            return Err(
                NsError::Other(format!("{block} belongs to a file already, and can not be given out again")).into()
            );
        }
        let generation = match leased {
            Some(leased) => leased,
            None => next_generation(context.rows)?,
        };
        let row =
            BlockRow { block, generation, issued: generation, len: 0, home, state: BlockState::Written, replaces };
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

/// What a request for a block asks for.
pub(crate) enum Step {
    /// It was answered before: this block, still empty, is the one.
    Again(Placed),
    /// A new block behind the last one, which is committed first as the client says.
    Behind(Option<(Placed, BlockRef)>),
}

/// Tells a repeated request from a new one by what it says of the blocks before, since the call has no retry key.
pub(crate) fn next_step(
    rows: &dyn Rows,
    path: &str,
    inode: &Inode,
    previous: Option<&BlockRef>,
) -> Result<Step, Failure> {
    let told = |claim: Option<&BlockRef>| claim.map_or("null".into(), |claim| named(claim.block, claim.generation));
    let mismatch = |last: String| {
        Err(NsError::Other(format!(
            "Cannot allocate block in {path}: passed 'previous' block {} does not match actual last block in file {last}",
            told(previous)
        ))
        .into())
    };
    let Some((offset, row)) = last_row(rows, inode)? else {
        return if previous.is_some() { mismatch("null".into()) } else { Ok(Step::Behind(None)) };
    };
    if let Some(claim) = previous
        && claim.block == row.block
    {
        block::check_claim(&row, claim)?;
        return Ok(Step::Behind(Some(((offset, row), *claim))));
    }
    if previous.is_none() && row.is_complete() && inode.file().is_none_or(|file| row.len >= file.block_len) {
        return Ok(Step::Behind(None));
    }
    let before = row_before(rows, inode.id, offset)?;
    let repeated = match (previous, &before) {
        (None, None) => true,
        (Some(claim), _) if row.replaces == Some(claim.block) => true,
        (Some(claim), Some((_, before))) => claim.block == before.block && claim.generation == before.generation,
        _ => false,
    };
    let last = named(row.block, row.generation);
    if !repeated {
        return mismatch(last);
    }
    if row.len > 0 || row.is_complete() {
        return Err(NsError::Other(format!(
            "Request looked like a retry to allocate block {last} but it already contains {} bytes",
            row.len
        ))
        .into());
    }
    Ok(Step::Again((offset, row)))
}

fn check_count(file: Option<&File>) -> Result<(), NsError> {
    match file {
        Some(file) if file.block_count >= BLOCK_COUNT_MAX => Err(NsError::Other(format!(
            "File has reached the limit on maximum number of blocks (dfs.namenode.fs-limits.max-blocks-per-file): {} >= {BLOCK_COUNT_MAX}",
            file.block_count
        ))),
        _ => Ok(()),
    }
}
