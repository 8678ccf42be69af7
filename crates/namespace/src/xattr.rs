//! Extended attributes in their rows. An inode counts its own, so that those who have none cost no look.

use crate::error::corrupt;
use crate::record::Inode;
use crate::tables::{XATTR, split_xattr, xattr_key};
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError, RowsMut};

/// Attributes of one inode, as HDFS allows (`dfs.namenode.fs-limits.max-xattrs-per-inode`).
pub const XATTR_COUNT_MAX: u32 = 32;
/// Bytes of name and value (`dfs.namenode.fs-limits.max-xattr-size`).
pub const XATTR_LEN_MAX: usize = 16_384;
/// Bytes of a name, which is part of a key. HDFS has no limit of its own for it.
pub const XATTR_NAME_LEN_MAX: usize = 255;
/// First byte of a value in its row.
const VERSION: u8 = 1;

/// The numbers are HDFS's, and stand in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XattrSpace {
    User,
    Trusted,
    Security,
    System,
    Raw,
}
types::numbered!(XattrSpace { 0 => User, 1 => Trusted, 2 => Security, 3 => System, 4 => Raw });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct XattrName {
    pub space: XattrSpace,
    /// Without the space before it.
    pub name: String,
}
types::record!(XattrName { 0: space, 1: name });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    pub name: XattrName,
    pub value: Vec<u8>,
}
types::record!(Xattr { 0: name, 1: value });

impl XattrSpace {
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::User, Self::Trusted, Self::Security, Self::System, Self::Raw].get(usize::from(number)).copied()
    }

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Trusted => "trusted",
            Self::Security => "security",
            Self::System => "system",
            Self::Raw => "raw",
        }
    }
}

impl XattrName {
    /// `security.hdfs.unreadable.by.superuser`: set once on a file, it keeps superusers from reading it.
    pub fn is_unreadable_mark(&self) -> bool {
        self.space == XattrSpace::Security && self.name == "hdfs.unreadable.by.superuser"
    }

    fn unreadable_mark() -> Self {
        Self { space: XattrSpace::Security, name: "hdfs.unreadable.by.superuser".into() }
    }
}

impl std::fmt::Display for XattrName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.space.prefix(), self.name)
    }
}

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
