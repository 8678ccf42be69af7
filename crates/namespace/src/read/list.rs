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
use types::rows::{Rows, RowsError};
use types::{ChecksumKind, FsPath, InodeId};

/// How much one page may hold. At least one entry is returned if there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    pub entries: usize,
    /// With so many entries it ends at the next name at which others end, too. So a new name shifts no end but that of
    /// its own page, and whoever keeps pages need make only that one anew.
    pub may_end: usize,
    /// `Some`: the blocks of files are wanted too, and the page ends once it has this many.
    pub blocks: Option<usize>,
}

impl PageLimits {
    /// HDFS's page.
    pub fn new(with_blocks: bool) -> Self {
        Self {
            entries: LISTING_PAGE_COUNT,
            may_end: LISTING_PAGE_COUNT * 4 / 5,
            blocks: with_blocks.then_some(LISTING_PAGE_COUNT),
        }
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
    /// Of the directory that was listed. `None`: it is none, or none that can change.
    pub extent: Option<PageExtent>,
}

/// What lies between the name that a page begins behind and its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageExtent {
    pub count: u32,
    /// Names of this directory follow.
    pub more: bool,
}

/// What a page is shown to.
pub trait TakePage {
    /// The page that begins behind the name `after`, which may be empty, is to be shown. `Some`: that is not needed, as
    /// its entries are known.
    fn known(&mut self, _directory: InodeId, _after: &[u8]) -> Option<PageExtent> {
        None
    }

    /// An entry, as it was read; the blocks of files come if they were asked for.
    fn take(&mut self, status: StatusRow<'_>, blocks: Option<FileBlocks>);

    /// It is full, and this is the name behind it.
    fn ends_before(&mut self, _next: &[u8]) {}
}

impl TakePage for Vec<Entry> {
    fn take(&mut self, status: StatusRow<'_>, blocks: Option<FileBlocks>) {
        self.push(Entry { status: status.to_status(), blocks: blocks.map(Box::new) });
    }
}

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
    let end = split(run(rows, caller, path, start_after, limits, &mut entries))?;
    Ok(end.map(|end| end.map(|PageEnd { remaining, .. }| Listing { entries, remaining })))
}

/// As [`list`], without a copy of any entry. Where it fails, some may have been shown.
pub fn list_each(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
    page: &mut dyn TakePage,
) -> Answer<Option<PageEnd>> {
    split(run(rows, caller, path, start_after, limits, page))
}

fn run(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
    page: &mut dyn TakePage,
) -> Result<Option<PageEnd>, Failure> {
    if reserved::is_top(path) {
        let statuses = reserved::entries(&root(rows)?.inode.group);
        let statuses = statuses.iter().filter(|status| status.name.as_slice() > start_after);
        statuses.for_each(|status| page.take(status.row(), None));
        return Ok(Some(PageEnd { remaining: 0, extent: None }));
    }
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    let Some(node) = resolved.last() else { return Ok(None) };
    let blocks = |inode: &Inode| match inode.file() {
        Some(file) if limits.blocks.is_some() => all_blocks(rows, inode, file).map(Some),
        _ => Ok(None),
    };
    if !node.inode.is_directory() {
        page.take(status_row(&node.inode, b""), blocks(&node.inode)?);
        return Ok(Some(PageEnd { remaining: 0, extent: None }));
    }
    let ask = Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() };
    permission::check(caller, &resolved, ask)?;
    let after = match start_after.strip_prefix(b"/.reserved/.inodes/") {
        Some(id) => name_of(rows, id, node.inode.id)?,
        None => start_after.to_vec(),
    };
    let known = page.known(node.inode.id, &after);
    let extent = known.map_or_else(|| show(rows, node.inode.id, &after, limits, &blocks, page), Ok)?;
    assert!(extent.count > 0 || !extent.more, "a page of {path} is empty, and more are to come");
    let behind = node.inode.child_count().saturating_sub(extent.count);
    let remaining = match extent.more {
        false => 0,
        true if after.is_empty() => behind.max(1),
        true => 1,
    };
    Ok(Some(PageEnd { remaining, extent: Some(extent) }))
}

/// The blocks of a file, where they are asked for.
type ReadBlocks<'a> = dyn Fn(&Inode) -> Result<Option<FileBlocks>, RowsError> + 'a;

fn show(
    rows: &dyn Rows,
    directory: InodeId,
    after: &[u8],
    limits: PageLimits,
    blocks: &ReadBlocks<'_>,
    page: &mut dyn TakePage,
) -> Result<PageExtent, Failure> {
    let (mut count, mut block_count, mut more, mut is_full) = (0, 0, false, false);
    scan_entries(rows, directory, after, &mut |name, row| {
        if is_full {
            more = true;
            page.ends_before(name.as_bytes());
            return Ok(ControlFlow::Break(()));
        }
        count += 1;
        block_count += row.file().map_or(0, |file| file.block_count as usize);
        let blocks = if limits.blocks.is_some() { blocks(&row.to_inode())? } else { None };
        page.take(status_row(&row, name.as_bytes()), blocks);
        is_full = count >= limits.entries.max(1)
            || count >= limits.may_end && is_usual_end(name)
            || limits.blocks.is_some_and(|max| block_count >= max.max(1));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(PageExtent { count: count as u32, more })
}

/// One name of 64, by chance: a page is a few dozen names longer than it must be, and one of twenty goes on to its
/// limit.
fn is_usual_end(name: &str) -> bool {
    ChecksumKind::Crc32c.of(name.as_bytes()).is_multiple_of(64)
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
