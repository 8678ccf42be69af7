//! Which block a request for the next one of a file asks for.

use crate::block::{self, Placed, last_row, row_before};
use crate::error::Failure;
use crate::error::block_fault::{BlockFault, BlockRequest};
use crate::record::Inode;
use crate::view::BlockRef;
use types::rows::Rows;

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
    let not_last = |last| {
        let (path, claimed) = (path.to_owned(), previous.map(BlockRef::named));
        Err(BlockFault::NotLast { path, request: BlockRequest::Add, claimed, last }.into())
    };
    let Some((offset, row)) = last_row(rows, inode)? else {
        return if previous.is_some() { not_last(None) } else { Ok(Step::Behind(None)) };
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
    if !repeated {
        return not_last(Some(row.named()));
    }
    if row.len > 0 || row.is_complete() {
        return Err(BlockFault::Written { last: row.named(), len: row.len }.into());
    }
    Ok(Step::Again((offset, row)))
}
