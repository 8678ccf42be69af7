//! Which block a request for the next one of a file asks for.

use crate::block::{self, Placed, last_row, named, row_before};
use crate::error::{Failure, NsError};
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
