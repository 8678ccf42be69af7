//! Blocks of files in their rows: BLOCK and OWNER in step, and the deletion list.

use crate::context::Context;
use crate::damage;
use crate::effects::DoubtCause;
use crate::error::block_fault::BlockFault;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, corrupt};
use crate::inode::{Node, next_generation};
use crate::record::{BlockRow, BlockState, DoomedRow, File, Inode, decode, encode};
use crate::tables::{
    BLOCK, DOOMED_BLOCK, OWNER, VISITOR, block_key, doomed_block_key, owner_key, split_pair, visitor_key,
};
use crate::view::{BlockRef, BlockView, DoomedBlock};
use std::ops::{Bound, ControlFlow};
use types::limits::BLOCK_LEN_MAX;
use types::rows::{Rows, RowsError, RowsMut};
use types::{BlockId, ContainerId, FileId, Generation, InodeId};

/// Lengths travel as signed numbers in HDFS.
const FILE_LEN_MAX: u64 = i64::MAX as u64;

/// A row and where its block begins.
pub(crate) type Placed = (u64, BlockRow);

pub(crate) fn last_row(rows: &dyn Rows, inode: &Inode) -> Result<Option<Placed>, RowsError> {
    match inode.file() {
        // Not looked for, as what lies before it may be thousands of rows that were just deleted.
        Some(file) if file.block_count == 0 => Ok(None),
        _ => row_at_most(rows, inode.id, u64::MAX),
    }
}

/// Issues a generation for a block: above all that were ever issued.
pub(crate) fn issue_generation(rows: &mut dyn RowsMut, row: &mut BlockRow) -> Result<Generation, RowsError> {
    let generation = next_generation(rows)?;
    debug_assert!(
        damage::is_expected() || row.issued < generation,
        "{} was issued for {} already",
        row.issued,
        row.block
    );
    row.issued = generation;
    Ok(generation)
}

/// The block before the one that begins at `offset`.
pub(crate) fn row_before(rows: &dyn Rows, file: FileId, offset: u64) -> Result<Option<Placed>, RowsError> {
    match offset.checked_sub(1) {
        Some(offset) => row_at_most(rows, file, offset),
        None => Ok(None),
    }
}

/// The last block that begins at or before `offset`.
pub(crate) fn row_at_most(rows: &dyn Rows, file: FileId, offset: u64) -> Result<Option<Placed>, RowsError> {
    let Some((key, value)) = rows.last_at_most(BLOCK, &block_key(file, offset))? else { return Ok(None) };
    let (owner, offset) = split_pair(&key).ok_or_else(|| corrupt("read a block", "a key of a wrong length"))?;
    if owner != file.0 {
        return Ok(None);
    }
    Ok(Some((offset, decode("read a block", &value)?)))
}

/// Shows the blocks of a file from `offset` on, in order, until the visitor breaks.
pub(crate) fn scan_rows(
    rows: &dyn Rows,
    file: FileId,
    offset: u64,
    visit: &mut dyn FnMut(u64, BlockRow) -> ControlFlow<()>,
) -> Result<(), RowsError> {
    let mut failed = None;
    rows.scan(BLOCK, Bound::Included(&block_key(file, offset)), &mut |key, value| {
        match split_pair(key) {
            Some((owner, offset)) if owner == file.0 => match decode("read a block", value) {
                Ok(row) => return visit(offset, row),
                Err(error) => failed = Some(error),
            },
            Some(_) => {}
            None => failed = Some(corrupt("read a block", "a key of a wrong length")),
        }
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(()), Err)
}

pub(crate) fn find(rows: &dyn Rows, block: BlockId) -> Result<Option<(FileId, Placed)>, RowsError> {
    let Some(bytes) = rows.get(OWNER, &owner_key(block))? else { return Ok(None) };
    let damaged = || corrupt("find a block", format!("the owner of {block} is damaged"));
    let (file, offset) = split_pair(&bytes).ok_or_else(damaged)?;
    let value = rows.get(BLOCK, &block_key(InodeId(file), offset))?.ok_or_else(damaged)?;
    let row: BlockRow = decode("find a block", &value)?;
    if row.block != block {
        return Err(damaged());
    }
    Ok(Some((InodeId(file), (offset, row))))
}

/// Writes a row whose block stood there before.
pub(crate) fn write_row(rows: &mut dyn RowsMut, file: FileId, offset: u64, row: &BlockRow) {
    debug_assert!(damage::is_expected() || row.generation <= row.issued, "a generation that was never issued: {row:?}");
    rows.put(BLOCK, &block_key(file, offset), encode(row));
}

/// Writes a row with a block that is new.
pub(crate) fn hook_row(rows: &mut dyn RowsMut, file: FileId, offset: u64, row: &BlockRow) {
    debug_assert!(
        damage::is_expected() || matches!(rows.get(BLOCK, &block_key(file, offset)), Ok(None)),
        "{row:?} takes the place of another"
    );
    write_row(rows, file, offset, row);
    rows.put(OWNER, &owner_key(row.block), block_key(file, offset).to_vec());
    list_visitor(rows, row);
}

/// Gives a block another home. The caller writes the row.
pub(crate) fn move_home(rows: &mut dyn RowsMut, row: &mut BlockRow, home: ContainerId) {
    unlist_visitor(rows, row);
    row.home = home;
    list_visitor(rows, row);
}

/// Blocks at home where they were born are found by their ids; the others by VISITOR.
fn list_visitor(rows: &mut dyn RowsMut, row: &BlockRow) {
    if row.home != row.block.born_in() {
        rows.put(VISITOR, &visitor_key(row.home, row.block), Vec::new());
    }
}

fn unlist_visitor(rows: &mut dyn RowsMut, row: &BlockRow) {
    if row.home != row.block.born_in() {
        rows.delete(VISITOR, &visitor_key(row.home, row.block));
    }
}

/// Takes a block from its file; its replicas are to be deleted.
pub(crate) fn doom_row(context: &mut Context<'_>, file: FileId, offset: u64, row: &BlockRow) -> Result<(), RowsError> {
    debug_assert!(
        damage::is_expected() || !matches!(context.rows.get(BLOCK, &block_key(file, offset)), Ok(None)),
        "{row:?} is not there"
    );
    context.rows.delete(BLOCK, &block_key(file, offset));
    context.rows.delete(OWNER, &owner_key(row.block));
    unlist_visitor(context.rows, row);
    // Replicas may carry any generation that was issued.
    doom_replicas(context, row.block, row.home, row.issued)
}

/// Replicas of at most `generation` in `home` are to be deleted.
pub(crate) fn doom_replicas(
    context: &mut Context<'_>,
    block: BlockId,
    home: ContainerId,
    generation: Generation,
) -> Result<(), RowsError> {
    let key = doomed_block_key(block, home);
    let earlier = match context.rows.get(DOOMED_BLOCK, &key)? {
        Some(bytes) => decode::<DoomedRow>("doom a block", &bytes)?.generation,
        None => Generation(0),
    };
    let generation = generation.max(earlier);
    context.rows.put(DOOMED_BLOCK, &key, encode(&DoomedRow { generation }));
    context.effects.doomed.push(DoomedBlock { block, home, generation });
    Ok(())
}

pub(crate) fn view(file: FileId, (offset, row): &Placed) -> BlockView {
    BlockView {
        file,
        block: row.block,
        generation: row.generation,
        len: row.len,
        offset: *offset,
        home: row.home,
        complete: row.is_complete(),
        written_for: row.written_for,
    }
}

/// The writer says how long its last block became, and the block is whole by that. An empty one is dropped.
/// `node` is the file, and is changed but not written. `seen`: a datanode has it whole at that length.
pub(crate) fn commit(
    context: &mut Context<'_>,
    node: &mut Node,
    (offset, mut row): Placed,
    claim: &BlockRef,
    seen: bool,
) -> Result<(), Failure> {
    let id = node.inode.id;
    check_claim(&row, claim)?;
    if row.is_complete() {
        return Ok(());
    }
    if claim.len == 0 {
        doom_row(context, id, offset, &row)?;
        return Ok(resize(node, row.len, 0, -1)?);
    }
    let before = row.len;
    if seen {
        check_end(offset, claim.len)?;
    } else {
        check_len(&node.inode, offset, claim.len)?;
    }
    row.len = claim.len;
    row.generation = claim.generation;
    row.state = BlockState::Complete;
    write_row(context.rows, id, offset, &row);
    context.effects.wrote(row.block, row.home, before, row.len);
    context.effects.doubt(row.block, row.home, DoubtCause::Completed);
    Ok(resize(node, before, row.len, 0)?)
}

/// True if the claim may be what became of the block in `row`.
pub(crate) fn check_claim(row: &BlockRow, claim: &BlockRef) -> Result<(), NsError> {
    let known = if row.is_complete() { row.generation } else { row.issued };
    if claim.generation < row.generation || claim.generation > known {
        return Err(BlockFault::OtherGeneration { have: row.named(), claimed: claim.named() }.into());
    }
    if claim.len < row.len || row.is_complete() && claim.len != row.len {
        return Err(BlockFault::OtherLen { claimed: claim.named(), len: claim.len, recorded: row.len }.into());
    }
    Ok(())
}

/// Refuses a length that a block of `file` cannot have: whoever says how long a block became is a client, and may say
/// anything.
pub(crate) fn check_len(file: &Inode, offset: u64, len: u64) -> Result<(), NsError> {
    let len_max = block_len(file);
    if len > len_max {
        return Err(BlockFault::TooLong { len, file: file.id, len_max }.into());
    }
    check_end(offset, len)
}

/// How long a block of the file becomes, unless its writer goes on in it, as HBase's does.
pub(crate) fn block_len(file: &Inode) -> u64 {
    file.file().map_or(0, |file| file.block_len)
}

/// Refuses a block longer than any may be, and a file that would be too long with `len` bytes at `offset`.
pub(crate) fn check_end(offset: u64, len: u64) -> Result<(), NsError> {
    if len > BLOCK_LEN_MAX {
        return Err(Limit::WrittenLen { len }.into());
    }
    if offset.checked_add(len).is_none_or(|end| end > FILE_LEN_MAX) {
        return Err(Limit::FileLen { offset, len }.into());
    }
    Ok(())
}

/// Carries a change of one block's length, and of the count of blocks, into the file. The caller writes the node.
pub(crate) fn resize(node: &mut Node, block_before: u64, block_after: u64, count: i32) -> Result<(), RowsError> {
    let id = node.inode.id;
    let damaged = || corrupt("resize a file", format!("length and blocks of {id} do not agree"));
    let file = node.inode.file_mut().ok_or_else(damaged)?;
    let rest = file.len.checked_sub(block_before).ok_or_else(damaged)?;
    file.len = rest.checked_add(block_after).ok_or_else(damaged)?;
    file.block_count = file.block_count.checked_add_signed(count).ok_or_else(damaged)?;
    Ok(())
}

/// Bytes of all blocks but the one under construction.
pub(crate) fn complete_len(file: &File, last: Option<&Placed>) -> u64 {
    match last {
        Some((offset, row)) if !row.is_complete() => {
            debug_assert!(damage::is_expected() || offset + row.len == file.len, "blocks of a file are as long as it");
            *offset
        }
        _ => file.len,
    }
}
