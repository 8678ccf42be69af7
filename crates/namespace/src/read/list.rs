//! A page of a directory.

use super::blocks::all_blocks;
use crate::caller::Caller;
use crate::error::{Answer, Failure, NsError, split};
use crate::inode::{read_place, root};
use crate::permission::{self, Access, Ask};
use crate::record::Inode;
use crate::reserved;
use crate::resolve::{Purpose, resolve};
use crate::view::{FileBlocks, Status, into_status};
use crate::walk::scan_children;
use std::ops::ControlFlow;
use types::limits::LISTING_PAGE_COUNT;
use types::rows::{Rows, RowsError};
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
    /// Entries behind this page: exact on the first page and on the last, otherwise at least 1. 0 if the page is empty.
    pub remaining: u32,
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
    split(run(rows, caller, path, start_after, limits))
}

fn run(
    rows: &dyn Rows,
    caller: &Caller,
    path: &FsPath,
    start_after: &[u8],
    limits: PageLimits,
) -> Result<Option<Listing>, Failure> {
    if reserved::is_top(path) {
        let statuses = reserved::entries(&root(rows)?.inode.group);
        let entries = statuses.into_iter().filter(|status| status.name.as_slice() > start_after);
        let entries = entries.map(|status| Entry { status, blocks: None });
        return Ok(Some(Listing { entries: entries.collect(), remaining: 0 }));
    }
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    let Some(node) = resolved.last() else { return Ok(None) };
    if !node.inode.is_directory() {
        let entry = entry(rows, node.inode.clone(), Vec::new(), limits.blocks.is_some())?;
        return Ok(Some(Listing { entries: vec![entry], remaining: 0 }));
    }
    let ask = Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() };
    permission::check(caller, &resolved, ask)?;
    let after = match start_after.strip_prefix(b"/.reserved/.inodes/") {
        Some(id) => name_of(rows, id, node.inode.id)?,
        None => start_after.to_vec(),
    };
    let (wanted_count, with_blocks) = (limits.entries.max(1), limits.blocks.is_some());
    let mut entries = Vec::with_capacity(wanted_count.min(node.inode.child_count() as usize));
    let mut block_count = 0;
    let mut more = false;
    scan_children(rows, node.inode.id, &after, &mut |name, inode| {
        let full = limits.blocks.is_some_and(|max| block_count >= max.max(1));
        if entries.len() >= wanted_count || full {
            more = true;
            return Ok(ControlFlow::Break(()));
        }
        block_count += inode.file().map_or(0, |file| file.block_count as usize);
        entries.push(entry(rows, inode, name.as_bytes().to_vec(), with_blocks)?);
        Ok(ControlFlow::Continue(()))
    })?;
    let behind = node.inode.child_count().saturating_sub(entries.len() as u32);
    let remaining = match more {
        false => 0,
        true if after.is_empty() => behind.max(1),
        true => 1,
    };
    Ok(Some(Listing { entries, remaining }))
}

fn entry(rows: &dyn Rows, inode: Inode, name: Vec<u8>, with_blocks: bool) -> Result<Entry, RowsError> {
    let blocks = match inode.file() {
        Some(file) if with_blocks => Some(Box::new(all_blocks(rows, &inode, file)?)),
        _ => None,
    };
    Ok(Entry { status: into_status(inode, name), blocks })
}

fn name_of(rows: &dyn Rows, id: &[u8], directory: InodeId) -> Result<Vec<u8>, Failure> {
    let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).map(InodeId);
    let place = match id {
        Some(id) => read_place(rows, id)?,
        None => None,
    };
    match place {
        Some(place) if place.parent == directory => Ok(place.name.into_bytes()),
        _ => Err(NsError::ListingStartGone("The entry the listing was to go on from is gone".into()).into()),
    }
}
