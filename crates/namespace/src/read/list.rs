//! A page of a directory.

use super::blocks::all_blocks;
use crate::access::Access;
use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, Failure, NsError, split};
use crate::inode::{read_place, root};
use crate::permission::{self, Ask};
use crate::record::Inode;
use crate::reserved;
use crate::resolve::resolve;
use crate::view::{FileBlocks, Status, StatusRow, status_row};
use crate::walk::scan_entries;
use std::ops::ControlFlow;
use types::limits::LISTING_PAGE_COUNT;
use types::rows::Rows;
use types::{FsPath, InodeId};

/// How much one page may hold. At least one entry is returned if there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    pub entries: usize,
    /// `Some`: the blocks of files are wanted too, and the page ends once it has this many.
    pub blocks: Option<usize>,
}

impl PageLimits {
    /// HDFS's page.
    pub fn new(with_blocks: bool) -> Self {
        Self { entries: LISTING_PAGE_COUNT, blocks: with_blocks.then_some(LISTING_PAGE_COUNT) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub status: Status,
    /// Of files, if asked for. Beside the entry, as most listings ask for none.
    pub blocks: Option<Box<FileBlocks>>,
}

/// In the order of the names' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub remaining: u32,
}

/// What a page was shown to the end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEnd {
    /// Entries behind this page: exact on the first page and on the last, otherwise at least 1. 0 if the page is empty.
    pub remaining: u32,
}

/// What a page's entries are shown to, one by one, as they are read: the blocks of files come if they were asked for.
pub type ShowEntry<'a> = dyn FnMut(StatusRow<'_>, Option<FileBlocks>) + 'a;

/// Entries of a directory with names greater than `start_after`, which need not exist; a file lists itself, without a
/// name. `None`: there is nothing. `/.reserved/.inodes/<id>` as `start_after` means the name of that inode.
pub fn list(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
) -> Answer<Option<Listing>> {
    let mut entries = Vec::new();
    let mut take = |status: StatusRow<'_>, blocks: Option<FileBlocks>| {
        entries.push(Entry { status: status.to_status(), blocks: blocks.map(Box::new) });
    };
    let end = split(run(rows, caller, path, start_after, limits, &mut take))?;
    Ok(end.map(|end| end.map(|PageEnd { remaining }| Listing { entries, remaining })))
}

/// As [`list`], without a copy of any entry. Where it fails, some may have been shown.
pub fn list_each(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
    show: &mut ShowEntry<'_>,
) -> Answer<Option<PageEnd>> {
    split(run(rows, caller, path, start_after, limits, show))
}

fn run(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
    show: &mut ShowEntry<'_>,
) -> Result<Option<PageEnd>, Failure> {
    if reserved::is_top(path) {
        let statuses = reserved::entries(&root(rows)?.inode.group);
        let statuses = statuses.iter().filter(|status| status.name.as_slice() > start_after);
        statuses.for_each(|status| show(status.row(), None));
        return Ok(Some(PageEnd { remaining: 0 }));
    }
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    let Some(node) = resolved.last() else { return Ok(None) };
    let blocks = |inode: &Inode| match inode.file() {
        Some(file) if limits.blocks.is_some() => all_blocks(rows, inode, file).map(Some),
        _ => Ok(None),
    };
    if !node.inode.is_directory() {
        show(status_row(&node.inode, b""), blocks(&node.inode)?);
        return Ok(Some(PageEnd { remaining: 0 }));
    }
    let ask = Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() };
    permission::check(caller, &resolved, ask)?;
    let after = match start_after.strip_prefix(b"/.reserved/.inodes/") {
        Some(id) => name_of(rows, id, node.inode.id)?,
        None => start_after.to_vec(),
    };
    let wanted_count = limits.entries.max(1);
    let (mut count, mut block_count, mut more) = (0, 0, false);
    scan_entries(rows, node.inode.id, &after, &mut |name, row| {
        let full = limits.blocks.is_some_and(|max| block_count >= max.max(1));
        if count >= wanted_count || full {
            more = true;
            return Ok(ControlFlow::Break(()));
        }
        count += 1;
        block_count += row.file().map_or(0, |file| file.block_count as usize);
        let blocks = if limits.blocks.is_some() { blocks(&row.to_inode())? } else { None };
        show(status_row(&row, name.as_bytes()), blocks);
        Ok(ControlFlow::Continue(()))
    })?;
    assert!(count > 0 || !more, "a page of {path} is empty, and more are to come");
    let behind = node.inode.child_count().saturating_sub(count as u32);
    let remaining = match more {
        false => 0,
        true if after.is_empty() => behind.max(1),
        true => 1,
    };
    Ok(Some(PageEnd { remaining }))
}

fn name_of(rows: &dyn Rows, id: &[u8], directory: InodeId) -> Result<Vec<u8>, Failure> {
    let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).map(InodeId);
    let place = match id {
        Some(id) => read_place(rows, id)?,
        None => None,
    };
    match place {
        Some(place) if place.parent == directory => Ok(place.name.into_bytes()),
        _ => Err(NsError::ListingStartGone.into()),
    }
}
