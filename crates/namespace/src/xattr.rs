//! Extended attributes in their rows. An inode counts its own, so that those who have none cost no look.

use crate::caller::Caller;
use crate::damage;
use crate::error::denial::Denial;
use crate::error::{NsError, corrupt};
use crate::record::Inode;
use crate::reserved;
use crate::tables::{XATTR, split_xattr, xattr_key};
use crate::xattr_name::{Xattr, XattrName, XattrSpace};
use std::ops::{Bound, ControlFlow};
use types::FsPath;
use types::rows::{Rows, RowsError, RowsMut};

/// Attributes of one inode, as HDFS allows (`dfs.namenode.fs-limits.max-xattrs-per-inode`).
pub const XATTR_COUNT_MAX: u32 = 32;
/// Bytes of name and value (`dfs.namenode.fs-limits.max-xattr-size`).
pub const XATTR_LEN_MAX: usize = 16_384;
/// Bytes of a name, which is part of a key. HDFS has no limit of its own for it.
pub const XATTR_NAME_LEN_MAX: usize = 255;
const _: () = assert!(1 + 8 + 1 + XATTR_NAME_LEN_MAX <= 511, "LMDB's longest key, with the table's byte");
/// First byte of a value in its row.
const VERSION: u8 = 1;

/// All attributes of an inode, by space and name.
pub(crate) fn all(rows: &dyn Rows, inode: &Inode) -> Result<Vec<Xattr>, RowsError> {
    let mut found = Vec::new();
    let mut failed = None;
    if inode.extra.xattr_count == 0 {
        return Ok(found);
    }
    rows.scan(XATTR, Bound::Included(&inode.id.0.to_be_bytes()), &mut |key, value| {
        match (split_xattr(key), value.split_first()) {
            (Some((id, _)), _) if id != inode.id => return ControlFlow::Break(()),
            (Some((_, name)), Some((&VERSION, value))) => {
                found.push(Xattr { name, value: value.into() });
                return ControlFlow::Continue(());
            }
            _ => failed = Some(corrupt("read an attribute", format!("an attribute of {} is damaged", inode.id))),
        }
        ControlFlow::Break(())
    })?;
    let count = inode.extra.xattr_count as usize;
    debug_assert!(
        damage::is_expected() || failed.is_some() || found.len() == count,
        "{} has {count} attributes: {found:?}",
        inode.id
    );
    failed.map_or(Ok(found), Err)
}

pub(crate) fn exists(rows: &dyn Rows, inode: &Inode, name: &XattrName) -> Result<bool, RowsError> {
    Ok(inode.extra.xattr_count > 0 && rows.get(XATTR, &xattr_key(inode.id, name))?.is_some())
}

/// Superusers may not read the file.
pub(crate) fn is_marked_unreadable(rows: &dyn Rows, inode: &Inode) -> Result<bool, RowsError> {
    exists(rows, inode, &XattrName::unreadable_mark())
}

/// The inode's count is the caller's to change.
pub(crate) fn put(rows: &mut dyn RowsMut, inode: &Inode, attribute: &Xattr) {
    let count = inode.extra.xattr_count;
    assert!(count > 0, "{} does not count its attribute {}", inode.id, attribute.name);
    let mut value = vec![VERSION];
    value.extend_from_slice(&attribute.value);
    rows.put(XATTR, &xattr_key(inode.id, &attribute.name), value);
}

/// The inode's count is the caller's to change.
pub(crate) fn remove(rows: &mut dyn RowsMut, inode: &Inode, name: &XattrName) {
    rows.delete(XATTR, &xattr_key(inode.id, name));
}

/// For an inode that leaves the tree.
pub(crate) fn remove_all(rows: &mut dyn RowsMut, inode: &mut Inode) -> Result<(), RowsError> {
    for attribute in all(rows, inode)? {
        remove(rows, inode, &attribute.name);
    }
    inode.extra.xattr_count = 0;
    Ok(())
}

/// Users have `user.*`, the superuser `trusted.*` too, and there is the mark of a file that superusers may not read.
/// `raw.*` is seen by way of `/.reserved/raw` alone, where only superusers change anything. The rest belongs to the
/// store, which has no use for it.
pub(crate) fn check_space(caller: &Caller, name: &XattrName, path: &FsPath) -> Result<(), NsError> {
    match name.space {
        XattrSpace::User => Ok(()),
        XattrSpace::Trusted if caller.superuser => Ok(()),
        XattrSpace::Raw if reserved::is_raw(path) => Ok(()),
        _ if name.is_unreadable_mark() => Ok(()),
        space => {
            let denial = Denial::XattrSpace(name.clone());
            // The others are refused to superusers, too.
            let depends_on_groups = space == XattrSpace::Trusted;
            Err(match depends_on_groups {
                true => NsError::denied(caller, denial),
                false => NsError::AccessDenied(denial.into()),
            })
        }
    }
}
