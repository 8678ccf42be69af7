//! Who may write a file: one client at a time, by its user and its name.
//!
//! When a client's lease runs out is the leader's business (it sees the renewals); here stands only who holds what.

use crate::block::{self, Placed, last_row};
use crate::context::Context;
use crate::damage;
use crate::error::absent::Absent;
use crate::error::block_fault::BlockFault;
use crate::error::lease_fault::{LeaseFault, Writing};
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::{Node, find_standing, write_node};
use crate::limits::HOLDER_LEN_MAX;
use crate::record::OpenFile;
use crate::resolve::resolve;
use crate::tables::{LEASE, OPEN, inode_key, lease_key, lease_prefix};
use std::ops::{Bound, ControlFlow};
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError, RowsMut};
use types::{BlockId, FileId, FsPath};

/// In place of the holder, for others.
const ANOTHER_USER: &str = "another user";

/// Holds files whose writer was shut out, until their last block is recovered. No client may call itself so.
pub const RECOVERY_HOLDER: &str = "levada-recovery";

/// Between a holder's user and its client.
const USER_END: char = '\u{1}';

/// Most leases counted for an error.
const COUNTED_MAX: usize = 1000;
/// Characters of a client's name that an error shows.
const HOLDER_SHOWN_MAX: usize = 100;

/// The holder of what a client of `user` writes. How clients call themselves others can hear, so by itself it proves
/// nothing.
pub fn holder_name(user: &str, client: &str) -> String {
    format!("{user}{USER_END}{client}")
}

/// How the holder's client calls itself.
pub fn client_of(holder: &str) -> &str {
    holder.split_once(USER_END).map_or(holder, |(_, client)| client)
}

/// Whose client the holder is; empty: nobody's, as of a recovery.
pub fn user_of(holder: &str) -> &str {
    holder.split_once(USER_END).map_or("", |(user, _)| user)
}

/// What one may be told that the other writes.
fn is_same_user(holder: &str, other: &str) -> bool {
    user_of(holder) == user_of(other)
}

pub(crate) fn check_holder_name(holder: &str) -> Result<(), NsError> {
    let client = client_of(holder);
    if client.is_empty() || holder.len() > HOLDER_LEN_MAX || holder.contains('\0') || client == RECOVERY_HOLDER {
        return Err(Limit::HolderName(client.chars().take(HOLDER_SHOWN_MAX).collect()).into());
    }
    Ok(())
}

/// Writes the rows of a lease; the inode's own `open` is the caller's to set.
pub(crate) fn grant(rows: &mut dyn RowsMut, file: FileId, holder: &str) {
    assert!(!holder.contains('\0'), "leases of {holder:?} are not told from those of others");
    debug_assert!(
        damage::is_expected() || matches!(rows.get(OPEN, &inode_key(file)), Ok(None)),
        "{file} is open already"
    );
    rows.put(LEASE, &lease_key(holder, file), Vec::new());
    rows.put(OPEN, &inode_key(file), Vec::new());
}

pub(crate) fn release(rows: &mut dyn RowsMut, file: FileId, holder: &str) {
    debug_assert!(
        damage::is_expected() || !matches!(rows.get(LEASE, &lease_key(holder, file)), Ok(None)),
        "{holder} has no lease of {file}"
    );
    rows.delete(LEASE, &lease_key(holder, file));
    rows.delete(OPEN, &inode_key(file));
}

/// Ends the writing of a file whose blocks are all whole.
pub(crate) fn close(context: &mut Context<'_>, node: &mut Node) {
    let id = node.inode.id;
    debug_assert!(
        damage::is_expected()
            || last_row(context.rows, &node.inode).is_ok_and(|last| last.is_none_or(|(_, row)| row.is_complete())),
        "{id} ends with a block that is not whole"
    );
    node.inode.modified = context.now;
    if let Some(open) = node.inode.file_mut().and_then(|file| file.open.take()) {
        release(context.rows, id, &open.holder);
    }
    write_node(context.rows, node);
}

/// The file and its path, if `client` is the one who writes it. The id wins over the path.
pub(crate) fn find_written(
    context: &Context<'_>,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
) -> Result<(Node, String), Failure> {
    let rows = &*context.rows;
    let (node, its_path) = find_file(rows, context.caller, path, file, client)?;
    check_writer(rows, &node, &its_path, path, client)?;
    Ok((node, its_path))
}

/// The file and its path, open or not. Who names it by its id may have no right to see the path.
pub(crate) fn find_file(
    rows: &dyn Rows,
    caller: &crate::caller::Caller,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
) -> Result<(Node, String), Failure> {
    let found = match file.filter(|id| id.0 != 0) {
        Some(id) => find_standing(rows, id)?,
        None => resolve(rows, caller, path, Purpose::Find)?.into_last().map(|node| (node, path.to_string())),
    };
    match found {
        Some((node, _)) if node.inode.is_directory() => {
            let id = node.inode.id;
            Err(LeaseFault::NotAFile(writing(rows, path.to_string(), id, client)?).into())
        }
        Some(found) => Ok(found),
        None => {
            let writing = writing(rows, path.to_string(), file.unwrap_or_default(), client)?;
            Err(Absent::Written(writing).into())
        }
    }
}

/// `path`: of the file; `named`: as the client calls it. Others than its writer's user are told nothing but what they
/// said.
pub(crate) fn check_writer(
    rows: &dyn Rows,
    node: &Node,
    path: &str,
    named: &FsPath,
    client: &str,
) -> Result<(), Failure> {
    let writing = |path: String| writing(rows, path, node.inode.id, client);
    let Some(open) = node.inode.file().and_then(|file| file.open.as_ref()) else {
        return Err(LeaseFault::NotOpen(writing(named.to_string())?).into());
    };
    if writes(open, client) || mutation::is(Mutation::AnyWriter) {
        return Ok(());
    }
    let fault = if is_same_user(&open.holder, client) {
        LeaseFault::OtherHolder { holder: open.holder.clone(), writing: writing(path.to_owned())? }
    } else {
        let holder = if open.recovery.is_some() { RECOVERY_HOLDER } else { ANOTHER_USER };
        LeaseFault::OtherHolder { holder: holder.into(), writing: writing(named.to_string())? }
    };
    Err(fault.into())
}

/// The file of a block that `client` is writing, and the block.
pub(crate) fn find_under_construction(
    rows: &dyn Rows,
    block: BlockId,
    client: &str,
) -> Result<(Node, Placed), Failure> {
    let Some((file, (offset, row))) = block::find(rows, block)? else {
        return Err(BlockFault::Unknown(block).into());
    };
    let standing = find_standing(rows, file)?.map(|(node, _)| node);
    let Some((node, open)) = standing.and_then(|node| {
        let open = node.inode.file()?.open.clone()?;
        Some((node, open))
    }) else {
        return Err(BlockFault::FileNotOpen(row.named()).into());
    };
    if !writes(&open, client) && !mutation::is(Mutation::AnyWriter) {
        return Err(LeaseFault::BlockOfOther { block: row.named(), client: client.to_owned() }.into());
    }
    if row.is_complete() {
        return Err(BlockFault::Complete(row.named()).into());
    }
    Ok((node, (offset, row)))
}

/// A writer that was shut out does not get back in by knowing the name of the one who holds its file now.
pub(crate) fn writes(open: &OpenFile, client: &str) -> bool {
    open.holder == client && open.recovery.is_none()
}

/// What a client says it writes, and how many files it does write.
fn writing(rows: &dyn Rows, path: String, file: FileId, client: &str) -> Result<Writing, RowsError> {
    let open_count = if client.len() > HOLDER_LEN_MAX { 0 } else { files(rows, client, None, COUNTED_MAX)?.len() };
    Ok(Writing { path, file, client: client.to_owned(), open_count })
}

/// Files that `holder` has open, by id.
pub(crate) fn files(
    rows: &dyn Rows,
    holder: &str,
    after: Option<FileId>,
    limit: usize,
) -> Result<Vec<FileId>, RowsError> {
    let prefix = lease_prefix(holder);
    let from = lease_key(holder, after.unwrap_or_default());
    let mut files = Vec::new();
    rows.scan(LEASE, Bound::Excluded(&from), &mut |key, _| match key.strip_prefix(prefix.as_slice()) {
        Some(id) if files.len() < limit => {
            if let Some(id) = crate::tables::split_inode(id) {
                files.push(id);
            }
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Break(()),
    })?;
    Ok(files)
}
