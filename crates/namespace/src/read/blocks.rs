//! Blocks of files, for readers and for those who delete replicas.

use crate::access::Access;
use crate::block::{self, complete_len, last_row, row_at_most, scan_rows};
use crate::caller::Caller;
use crate::deleted_trees::first_tree;
use crate::error::denial::Denial;
use crate::error::{Answer, Failure, NsError, Purpose, corrupt, split};
use crate::permission::{self, Ask};
use crate::record::{DoomedRow, File, Inode, decode};
use crate::resolve::resolve;
use crate::tables::{DOOMED_BLOCK, doomed_block_key, split_pair};
use crate::view::{BlockView, DoomedBlock, FileBlocks, status_of};
use crate::xattr;
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, FsPath};

/// Blocks that overlap `[offset, offset + len)`, at least the one that holds `offset`; and the last one in any case.
/// Needs READ.
pub fn located(rows: &dyn Rows, caller: &Caller, path: &FsPath, offset: u64, len: u64) -> Answer<FileBlocks> {
    split(run(rows, caller, path, offset, len))
}

/// As [`located`], for the server itself, which reads no bytes.
pub fn located_unasked(rows: &dyn Rows, path: &FsPath, offset: u64, len: u64) -> Answer<FileBlocks> {
    split(resolve(rows, &Caller::system(), path, Purpose::Find).and_then(|resolved| {
        let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
        let file = node.inode.file().ok_or_else(|| NsError::not_a_file(path))?;
        Ok(blocks_in(rows, &node.inode, file, offset, len)?)
    }))
}

fn run(rows: &dyn Rows, caller: &Caller, path: &FsPath, offset: u64, len: u64) -> Result<FileBlocks, Failure> {
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
    let file = node.inode.file().ok_or_else(|| NsError::not_a_file(path))?;
    let may_be_superuser = caller.superuser || !caller.groups_known;
    if may_be_superuser && xattr::is_marked_unreadable(rows, &node.inode)? {
        let denial = Denial::UnreadableForSuperusers { user: caller.user.clone() };
        return Err(NsError::denied(caller, denial).into());
    }
    permission::check(caller, &resolved, Ask { path: Some(Access::READ), ..Ask::default() })?;
    Ok(blocks_in(rows, &node.inode, file, offset, len)?)
}

pub(crate) fn all_blocks(rows: &dyn Rows, inode: &Inode, file: &File) -> Result<FileBlocks, RowsError> {
    blocks_in(rows, inode, file, 0, u64::MAX)
}

fn blocks_in(rows: &dyn Rows, inode: &Inode, file: &File, offset: u64, len: u64) -> Result<FileBlocks, RowsError> {
    let end = offset.saturating_add(len.max(1));
    let mut blocks = Vec::new();
    let last = last_row(rows, inode)?;
    if let Some((last_start, last_row)) = &last
        && *last_start <= offset
    {
        // No other can reach over it. Most files have but one block, and it is here already.
        if last_start.saturating_add(last_row.len) > offset {
            blocks.extend(last.iter().map(|placed| block::view(inode.id, placed)));
        }
    } else if let Some((last_start, _)) = &last {
        // The block before the first that begins behind `offset` is the only one that can reach over it.
        let first = match offset {
            0 => 0,
            _ => row_at_most(rows, inode.id, offset)?.map_or(offset, |(start, _)| start),
        };
        scan_rows(rows, inode.id, first, &mut |start, row| {
            if start >= end {
                return ControlFlow::Break(());
            }
            if start.saturating_add(row.len) > offset {
                blocks.push(block::view(inode.id, &(start, row)));
            }
            // Not a row further: behind the last one may be thousands that were just deleted.
            if start < *last_start { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(FileBlocks {
        status: status_of(inode, ""),
        file_len: complete_len(file, last.as_ref()),
        blocks,
        last: last.map(|placed| block::view(inode.id, &placed)),
        under_construction: file.open.is_some(),
    })
}

/// The file that owns a block. It may be part of a deleted tree, until that is freed.
pub fn file_of_block(rows: &dyn Rows, block: BlockId) -> Result<Option<(FileId, BlockView)>, RowsError> {
    Ok(block::find(rows, block)?.map(|(file, placed)| (file, block::view(file, &placed))))
}

/// The length that a block is being cut to, if it is.
pub fn cut_len(rows: &dyn Rows, block: BlockId) -> Result<Option<u64>, RowsError> {
    Ok(block::find(rows, block)?.and_then(|(_, (_, row))| row.cut_len()))
}

/// Blocks whose replicas are to be deleted, in order, behind `after`.
pub fn doomed_blocks(rows: &dyn Rows, after: Option<DoomedBlock>, limit: usize) -> Result<Vec<DoomedBlock>, RowsError> {
    let from = after.map(|doomed| doomed_block_key(doomed.block, doomed.home));
    let from = from.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
    let mut found: Vec<Result<DoomedBlock, RowsError>> = Vec::new();
    rows.scan(DOOMED_BLOCK, from, &mut |key, value| {
        if found.len() >= limit {
            return ControlFlow::Break(());
        }
        found.push(doomed_block(key, value));
        ControlFlow::Continue(())
    })?;
    found.into_iter().collect()
}

fn doomed_block(key: &[u8], value: &[u8]) -> Result<DoomedBlock, RowsError> {
    let (block, home) = split_pair(key).ok_or_else(|| corrupt("list doomed blocks", "a key of a wrong length"))?;
    let DoomedRow { generation } = decode("list doomed blocks", value)?;
    Ok(DoomedBlock { block: BlockId(block), home: ContainerId(home), generation })
}

/// True if `Reap` has work.
pub fn has_deleted_trees(rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(first_tree(rows)?.is_some())
}
