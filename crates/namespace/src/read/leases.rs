//! Open files, and who holds them.

use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, Failure, NsError, corrupt, split};
use crate::inode::find_standing;
use crate::lease;
use crate::record::OpenFile;
use crate::resolve::resolve;
use crate::tables::{LEASE, OPEN, RESERVED, RESERVED_KEY, inode_key, split_inode, split_lease};
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError};
use types::{FileId, FsPath};

/// Who has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub file: FileId,
    pub holder: String,
    pub client_host: String,
    /// The writer was shut out; the last block is being recovered.
    pub recovering: bool,
}

/// An open file and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenView {
    pub path: String,
    pub holder: Holder,
}

/// Who has the file open; `None` if nobody, or if there is no such file. For the leader, before it proposes `Create` or
/// `Append`: a holder it knows to be silent goes into `takeover`.
pub fn holder_of(rows: &dyn Rows, path: &FsPath) -> Result<Option<Holder>, RowsError> {
    match resolve(rows, &Caller::system(), path, Purpose::Find) {
        Ok(resolved) => Ok(resolved.last().and_then(|node| {
            let open = node.inode.file()?.open.as_ref()?;
            Some(holder(node.inode.id, open))
        })),
        Err(Failure::Refused(_)) => Ok(None),
        Err(Failure::Rows(error)) => Err(error),
    }
}

/// True if ids of files were ever reserved: some may be in the hands of clients.
pub fn ever_reserved(rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(rows.get(RESERVED, RESERVED_KEY)?.is_some())
}

/// Needs no right but to pass the directories above.
pub fn is_closed(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<bool> {
    let run = || {
        let resolved = resolve(rows, caller, path, Purpose::Find)?;
        let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
        let file = node.inode.file().ok_or_else(|| NsError::not_a_file(path))?;
        Ok(file.open.is_none())
    };
    split(run())
}

/// Files a client has open, by id; some may stand in deleted trees that are not freed yet.
pub fn lease_files(
    rows: &dyn Rows,
    holder: &str,
    after: Option<FileId>,
    limit: usize,
) -> Result<Vec<FileId>, RowsError> {
    lease::files(rows, holder, after, limit)
}

/// Clients with open files, by name, behind `after`. For a new leader, which must watch them all.
pub fn lease_holders(rows: &dyn Rows, after: &str, limit: usize) -> Result<Vec<String>, RowsError> {
    let mut holders: Vec<String> = Vec::new();
    // The byte after the separator: behind all files of `after`.
    let mut from = [after.as_bytes(), &[1]].concat();
    if after.is_empty() {
        from.clear();
    }
    let mut failed = None;
    while holders.len() < limit && failed.is_none() {
        let mut found = None;
        rows.scan(LEASE, Bound::Included(&from), &mut |key, _| {
            match split_lease(key) {
                Some((holder, _)) => found = Some(holder.to_string()),
                None => failed = Some(corrupt("list leases", "a damaged key")),
            }
            ControlFlow::Break(())
        })?;
        let Some(holder) = found else { break };
        from = [holder.as_bytes(), &[1]].concat();
        holders.push(holder);
    }
    failed.map_or(Ok(holders), Err)
}

/// Open files by id, behind `after`. The second value is the id to go on from, `None` at the end: files of deleted
/// trees are passed over, so a page may be short.
pub fn open_files(rows: &dyn Rows, after: FileId, limit: usize) -> Result<(Vec<OpenView>, Option<FileId>), RowsError> {
    let mut ids = Vec::new();
    rows.scan(OPEN, Bound::Excluded(&inode_key(after)), &mut |key, _| {
        if ids.len() == limit {
            return ControlFlow::Break(());
        }
        ids.extend(split_inode(key));
        ControlFlow::Continue(())
    })?;
    let mut files = Vec::new();
    for id in &ids {
        if let Some((node, path)) = find_standing(rows, *id)?
            && let Some(open) = node.inode.file().and_then(|file| file.open.as_ref())
        {
            files.push(OpenView { path, holder: holder(*id, open) });
        }
    }
    let next = if ids.len() == limit { ids.last().copied() } else { None };
    Ok((files, next))
}

fn holder(file: FileId, open: &OpenFile) -> Holder {
    Holder {
        file,
        holder: open.holder.clone(),
        client_host: open.client_host.clone(),
        recovering: open.recovery.is_some(),
    }
}
