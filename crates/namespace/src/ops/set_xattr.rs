//! Setting and removing extended attributes.

use super::Context;
use crate::error::{Failure, NsError};
use crate::inode::{Node, write_node};
use crate::permission::{self, Access, Ask};
use crate::request::{Caller, Reply};
use crate::resolve::{Purpose, resolve};
use crate::xattr::{self, XATTR_COUNT_MAX, XATTR_LEN_MAX, XATTR_NAME_LEN_MAX, Xattr, XattrName, XattrSpace};
use serde::{Deserialize, Serialize};
use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetXattr {
    pub path: FsPath,
    pub attribute: Xattr,
    /// May be new; may be there already.
    pub create: bool,
    pub replace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveXattr {
    pub path: FsPath,
    pub name: XattrName,
}

impl SetXattr {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let name = &self.attribute.name;
        self.check_len()?;
        check_space(context.caller, name)?;
        let mut node = find_changeable(context, &self.path, name)?;
        let exists = xattr::exists(context.rows, &node.inode, name)?;
        if exists && !self.replace {
            return Err(NsError::Other(format!(
                "XAttr: {} already exists. The REPLACE flag must be specified.",
                name.name
            ))
            .into());
        }
        if !exists && !self.create {
            return Err(NsError::Other(format!(
                "XAttr: {} does not exist. The CREATE flag must be specified.",
                name.name
            ))
            .into());
        }
        if !exists {
            if node.inode.extra.xattr_count >= XATTR_COUNT_MAX {
                let message = format!("Cannot add additional XAttr to inode, would exceed limit of {XATTR_COUNT_MAX}");
                return Err(NsError::Other(message).into());
            }
            node.inode.extra.xattr_count += 1;
            write_node(context.rows, &node);
        }
        xattr::put(context.rows, &node.inode, &self.attribute);
        Ok(Reply::Done)
    }

    fn check_len(&self) -> Result<(), NsError> {
        let Xattr { name, value } = &self.attribute;
        let len = name.name.len() + value.len();
        if len > XATTR_LEN_MAX {
            return Err(NsError::IllegalArgument(format!(
                "The XAttr is too big. The maximum combined size of the name and value is {XATTR_LEN_MAX}, but the total size is {len}"
            )));
        }
        if name.name.is_empty() || name.name.len() > XATTR_NAME_LEN_MAX || name.name.contains('\0') {
            return Err(NsError::IllegalArgument(format!(
                "The name of an XAttr has 1 to {XATTR_NAME_LEN_MAX} bytes, and none of them zero"
            )));
        }
        Ok(())
    }
}

impl RemoveXattr {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        check_space(context.caller, &self.name)?;
        let mut node = find_changeable(context, &self.path, &self.name)?;
        if !xattr::exists(context.rows, &node.inode, &self.name)? {
            return Err(NsError::Other("No matching attributes found for remove operation".into()).into());
        }
        xattr::remove(context.rows, &node.inode, &self.name);
        node.inode.extra.xattr_count = node.inode.extra.xattr_count.saturating_sub(1);
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}

/// Users have `user.*`, the superuser `trusted.*` too; the rest belongs to the store, which has no use for it.
pub(crate) fn check_space(caller: &Caller, name: &XattrName) -> Result<(), NsError> {
    match name.space {
        XattrSpace::User => Ok(()),
        XattrSpace::Trusted if caller.superuser => Ok(()),
        _ => Err(NsError::AccessDenied(format!("User doesn't have permission for xattr: {name}"))),
    }
}

/// Below a sticky directory's own name only its owner may leave attributes, since everybody may write there.
fn find_changeable(context: &Context<'_>, path: &FsPath, name: &XattrName) -> Result<Node, Failure> {
    let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
    if name.space == XattrSpace::User {
        let sticky = resolved.last().is_some_and(|node| node.inode.is_directory() && node.inode.mode & 0o1000 != 0);
        let ask = match sticky {
            true => Ask { owner: true, ..Ask::default() },
            false => Ask { path: Some(Access::WRITE), ..Ask::default() },
        };
        permission::check(context.rows, context.caller, &resolved, ask)?;
    }
    resolved.into_last().ok_or_else(|| NsError::NotFound(format!("cannot find {path}")).into())
}
