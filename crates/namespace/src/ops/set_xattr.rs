//! Setting and removing extended attributes.

use crate::access::Access;
use crate::context::Context;
use crate::error::Purpose;
use crate::error::absent::Absent;
use crate::error::denial::Denial;
use crate::error::xattr_fault::XattrFault;
use crate::error::{Failure, NsError};
use crate::inode::{Node, write_node};
use crate::permission::{self, Ask};
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::xattr::{self, XATTR_COUNT_MAX, XATTR_LEN_MAX, XATTR_NAME_LEN_MAX, check_space};
use crate::xattr_name::{Xattr, XattrName, XattrSpace};
use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetXattr {
    pub path: FsPath,
    pub attribute: Xattr,
    /// May be new; may be there already.
    pub create: bool,
    pub replace: bool,
}
types::record!(SetXattr { 0: path, 1: attribute, 2: create, 3: replace });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveXattr {
    pub path: FsPath,
    pub name: XattrName,
}
types::record!(RemoveXattr { 0: path, 1: name });

impl SetXattr {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let name = &self.attribute.name;
        self.check_len()?;
        check_space(context.caller, name, &self.path)?;
        if name.is_unreadable_mark() && !self.attribute.value.is_empty() {
            return Err(NsError::AccessDenied(Denial::MarkWithValue(name.clone()).into()).into());
        }
        let mut node = find_changeable(context, &self.path, name)?;
        if name.is_unreadable_mark() && node.inode.is_directory() {
            return Err(XattrFault::MarkOnDirectory(name.clone()).into());
        }
        let exists = xattr::exists(context.rows, &node.inode, name)?;
        if exists && !self.replace {
            return Err(XattrFault::Exists(name.clone()).into());
        }
        if !exists && !self.create {
            return Err(XattrFault::Missing(name.clone()).into());
        }
        if !exists {
            if node.inode.extra.xattr_count >= XATTR_COUNT_MAX {
                return Err(XattrFault::TooMany.into());
            }
            node.inode.extra.xattr_count += 1;
            write_node(context.rows, &node);
        }
        xattr::put(context.rows, &node.inode, &self.attribute);
        Ok(Reply::Done)
    }

    pub(super) fn check_len(&self) -> Result<(), NsError> {
        let Xattr { name, value } = &self.attribute;
        let len = name.name.len() + value.len();
        if len > XATTR_LEN_MAX {
            return Err(NsError::Xattr(XattrFault::TooLong { len }));
        }
        if name.name.is_empty() || name.name.len() > XATTR_NAME_LEN_MAX || name.name.contains('\0') {
            return Err(NsError::Xattr(XattrFault::NameLen));
        }
        Ok(())
    }
}

impl RemoveXattr {
    /// Nothing has a longer name.
    pub(super) fn check_len(&self) -> Result<(), NsError> {
        let is_possible = self.name.name.len() <= XATTR_NAME_LEN_MAX;
        if is_possible { Ok(()) } else { Err(NsError::Xattr(XattrFault::NotThereToRemove)) }
    }

    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        check_space(context.caller, &self.name, &self.path)?;
        if self.name.is_unreadable_mark() {
            return Err(NsError::AccessDenied(Denial::MarkRemoved(self.name.clone()).into()).into());
        }
        let mut node = find_changeable(context, &self.path, &self.name)?;
        if !xattr::exists(context.rows, &node.inode, &self.name)? {
            return Err(XattrFault::NotThereToRemove.into());
        }
        xattr::remove(context.rows, &node.inode, &self.name);
        node.inode.extra.xattr_count = node.inode.extra.xattr_count.saturating_sub(1);
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}

/// A file is marked as unreadable by its owner. (HDFS lets everybody do so who can find it, and the mark stays for
/// ever.)
///
/// Below a sticky directory's own name only its owner may leave attributes, since everybody may write there.
fn find_changeable(context: &Context<'_>, path: &FsPath, name: &XattrName) -> Result<Node, Failure> {
    let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
    if name.is_unreadable_mark() {
        permission::check(context.caller, &resolved, Ask { owner: true, ..Ask::default() })?;
    }
    if name.space == XattrSpace::User {
        let sticky = resolved.last().is_some_and(|node| node.inode.is_directory() && node.inode.mode & 0o1000 != 0);
        let ask = match sticky {
            true => Ask { owner: true, ..Ask::default() },
            false => Ask { path: Some(Access::WRITE), ..Ask::default() },
        };
        permission::check(context.caller, &resolved, ask)?;
    }
    resolved.into_last().ok_or_else(|| Absent::Attributed(path.clone()).into())
}
