//! Access lists and extended attributes, as far as the caller may see them.

use crate::access::Access;
use crate::acl_entry::AclEntry;
use crate::caller::Caller;
use crate::error::absent::Absent;
use crate::error::xattr_fault::XattrFault;
use crate::error::{Answer, Failure, NsError, Purpose, split};
use crate::permission::{self, Ask};
use crate::resolve::resolve;
use crate::view::{Status, status_of};
use crate::xattr::{self, check_space};
use crate::xattr_name::{Xattr, XattrName};
use types::FsPath;
use types::rows::Rows;

/// The status, and what the access list says beyond the mode. Needs no right but to pass the directories above.
pub fn acl(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<(Status, Vec<AclEntry>)> {
    split(resolve(rows, caller, path, Purpose::Find).and_then(|resolved| {
        let node = resolved.into_last().ok_or_else(|| Absent::Attributed(path.clone()))?;
        let status = status_of(&node.inode, "");
        Ok((status, node.inode.extra.acl))
    }))
}

/// The attributes with these names, or all that the caller may know of if there are none.
pub fn xattrs(rows: &dyn Rows, caller: &Caller, path: &FsPath, names: &[XattrName]) -> Answer<Vec<Xattr>> {
    split(find(rows, caller, path, names))
}

fn find(rows: &dyn Rows, caller: &Caller, path: &FsPath, names: &[XattrName]) -> Result<Vec<Xattr>, Failure> {
    for name in names {
        check_space(caller, name, path)?;
    }
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    permission::check(caller, &resolved, Ask { path: Some(Access::READ), ..Ask::default() })?;
    let node = resolved.into_last().ok_or_else(|| Absent::Attributed(path.clone()))?;
    let mut all = Vec::new();
    for attribute in xattr::all(rows, &node.inode)? {
        match check_space(caller, &attribute.name, path) {
            Ok(()) => all.push(attribute),
            // A list without it would be a wrong one.
            Err(unknown @ NsError::GroupsUnknown(_)) => return Err(unknown.into()),
            Err(_) => {}
        }
    }
    if names.is_empty() {
        return Ok(all);
    }
    let wanted = |name: &XattrName| all.iter().find(|attribute| attribute.name == *name).cloned();
    let found: Option<Vec<Xattr>> = names.iter().map(wanted).collect();
    found.ok_or_else(|| XattrFault::NotFound.into())
}
