//! What a container should hold, and files whose blocks are in containers of another replication than theirs.

use crate::block::{self, scan_rows};
use crate::error::corrupt;
use crate::inode::read_node;
use crate::tables::{
    DOOMED_BLOCK, OWNER, RESIZED, VISITOR, doomed_block_key, inode_key, owner_key, split_inode, split_pair, visitor_key,
};
use crate::view::BlockView;
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError, Table};
use types::{BlockId, ContainerId, FileId, InodeId};

/// Where a look at a container goes on: among the blocks born in it, or among those that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Native(BlockId),
    Visitor(BlockId),
}

impl Place {
    pub fn start(home: ContainerId) -> Self {
        Self::Native(BlockId::new(home, 0))
    }
}

/// Some blocks of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those that are complete, in order.
    pub blocks: Vec<BlockView>,
    /// Others, that are being written.
    pub open: Vec<BlockId>,
    /// Blocks born in the container were looked at from the page's beginning up to, and without, this one; `None`: the
    /// page shows blocks that were born elsewhere.
    pub native_end: Option<BlockId>,
    /// Where to go on; `None` at the end.
    pub next: Option<Place>,
}

/// At most `limit` blocks whose home is `home`, from `place` on.
pub fn container_page(rows: &dyn Rows, home: ContainerId, place: Place, limit: usize) -> Result<Page, RowsError> {
    let mut ids: Vec<Option<BlockId>> = Vec::new();
    let damaged = || corrupt("list the blocks of a container", "a key of a wrong length");
    let (native_end, next) = match place {
        Place::Native(from) => {
            let end = BlockId::new(ContainerId(home.0 + 1), 0);
            rows.scan(OWNER, Bound::Included(&owner_key(from)), &mut |key, _| {
                let id = split_inode(key).map(|id| BlockId(id.0));
                if id.is_some_and(|id| id >= end) {
                    return ControlFlow::Break(());
                }
                ids.push(id);
                if ids.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            match ids.last().copied().flatten().filter(|_| ids.len() >= limit) {
                Some(last) => (BlockId(last.0 + 1), Some(Place::Native(BlockId(last.0 + 1)))),
                None => (end, Some(Place::Visitor(BlockId(0)))),
            }
        }
        Place::Visitor(from) => {
            let mut more = false;
            rows.scan(VISITOR, Bound::Included(&visitor_key(home, from)), &mut |key, _| {
                match split_pair(key) {
                    Some((container, _)) if container != home.0 => return ControlFlow::Break(()),
                    Some(_) if ids.len() >= limit => {
                        more = true;
                        return ControlFlow::Break(());
                    }
                    pair => ids.push(pair.map(|(_, block)| BlockId(block))),
                }
                ControlFlow::Continue(())
            })?;
            let last = ids.last().copied().flatten().filter(|_| more);
            (BlockId(0), last.map(|last| Place::Visitor(BlockId(last.0 + 1))))
        }
    };
    let mut page = Page { blocks: Vec::new(), open: Vec::new(), native_end: None, next };
    if matches!(place, Place::Native(_)) {
        page.native_end = Some(native_end);
    }
    for id in ids {
        let Some((file, placed)) = block::find(rows, id.ok_or_else(damaged)?)? else { continue };
        let view = block::view(file, &placed);
        if view.home != home {
            continue;
        }
        if view.complete {
            page.blocks.push(view);
        } else {
            page.open.push(view.block);
        }
    }
    Ok(page)
}

/// Whether nothing speaks of a container: no block was born there or is at home there, and no replica of those born
/// there is still to be deleted.
pub fn is_empty(rows: &dyn Rows, home: ContainerId) -> Result<bool, RowsError> {
    let end = BlockId::new(ContainerId(home.0 + 1), 0).0;
    let owned = owner_key(BlockId::new(home, 0));
    let doomed = doomed_block_key(BlockId::new(home, 0), ContainerId(0));
    let visitor = visitor_key(home, BlockId(0));
    // In each of these tables what concerns the container lies together.
    Ok(first_number(rows, OWNER, &owned)?.is_none_or(|block| block >= end)
        && first_number(rows, DOOMED_BLOCK, &doomed)?.is_none_or(|block| block >= end)
        && first_number(rows, VISITOR, &visitor)?.is_none_or(|container| container != home.0))
}

/// What the first key from this one on begins with.
fn first_number(rows: &dyn Rows, table: Table, from: &[u8]) -> Result<Option<u64>, RowsError> {
    let mut found = None;
    rows.scan(table, Bound::Included(from), &mut |key, _| {
        found = Some(key.first_chunk().map(|number| u64::from_be_bytes(*number)));
        ControlFlow::Break(())
    })?;
    let damaged = || corrupt("look for blocks of a container", "a key of a wrong length");
    found.map(|number| number.ok_or_else(damaged)).transpose()
}

/// Files whose replication was changed, behind `after`.
pub fn resized_files(rows: &dyn Rows, after: Option<FileId>, limit: usize) -> Result<Vec<FileId>, RowsError> {
    let from = after.map(inode_key);
    let from = from.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
    let mut files = Vec::new();
    rows.scan(RESIZED, from, &mut |key, _| {
        if files.len() >= limit {
            return ControlFlow::Break(());
        }
        files.push(split_inode(key));
        ControlFlow::Continue(())
    })?;
    let all: Option<Vec<InodeId>> = files.into_iter().collect();
    all.ok_or_else(|| corrupt("list resized files", "a key of a wrong length"))
}

/// Copies that a file asks for; `None` if it is no file any more.
pub fn replication(rows: &dyn Rows, file: FileId) -> Result<Option<u16>, RowsError> {
    let node = read_node(rows, file)?;
    Ok(node.and_then(|node| node.inode.file().map(|body| body.replication)))
}

/// Some blocks of a file, and what it wants of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReplicas {
    pub replication: u16,
    pub is_open: bool,
    pub blocks: Vec<BlockView>,
    /// Where to go on; `None` at the end.
    pub next_offset: Option<u64>,
}

/// At most `limit` blocks of a file from `offset` on; `None` if it is no file any more.
pub fn file_replicas(
    rows: &dyn Rows,
    file: FileId,
    offset: u64,
    limit: usize,
) -> Result<Option<FileReplicas>, RowsError> {
    let Some(node) = read_node(rows, file)? else { return Ok(None) };
    let Some(body) = node.inode.file() else { return Ok(None) };
    let mut blocks = Vec::new();
    let mut next_offset = None;
    if body.block_count > 0 {
        scan_rows(rows, file, offset, &mut |start, row| {
            if blocks.len() >= limit {
                next_offset = Some(start);
                return ControlFlow::Break(());
            }
            blocks.push(block::view(file, &(start, row)));
            ControlFlow::Continue(())
        })?;
    }
    Ok(Some(FileReplicas { replication: body.replication, is_open: body.open.is_some(), blocks, next_offset }))
}
