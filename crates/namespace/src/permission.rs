//! Who may do what: owner, group, others, the sticky bit, the superuser. The one place, used by every operation.
//!
//! The rules and texts are those of HDFS's permission checker. Passing the directories above is checked while a path is
//! resolved; an operation then says in an [`Ask`] what else it needs.

use crate::caller::Caller;
use crate::error::NsError;
use crate::record::Inode;
use crate::resolved::Resolved;
use std::fmt;
use types::InodeId;

/// A set of rights: read 4, write 2, execute 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    pub const READ: Self = Self(4);
    pub const WRITE: Self = Self(2);
    pub const EXECUTE: Self = Self(1);
    pub const READ_EXECUTE: Self = Self(5);
    pub const ALL: Self = Self(7);

    /// As HDFS numbers them (`FsActionProto`); higher bits are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["NONE", "EXECUTE", "WRITE", "WRITE_EXECUTE", "READ", "READ_EXECUTE", "READ_WRITE", "ALL"];
        f.write_str(NAMES[usize::from(self.0 & 7)])
    }
}

/// What an operation needs beside the way to its path. Asking for rights on something that does not exist passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    /// On the closest directory above that exists.
    pub(crate) ancestor: Option<Access>,
    /// On the directory that holds the last name. With WRITE, its sticky bit counts.
    pub(crate) parent: Option<Access>,
    /// On the path itself.
    pub(crate) path: Option<Access>,
    /// The caller must own the path.
    pub(crate) owner: bool,
}

pub(crate) fn check(caller: &Caller, resolved: &Resolved, ask: Ask) -> Result<(), NsError> {
    if caller.superuser {
        return Ok(());
    }
    let parent = resolved.parent_index();
    if ask.parent.is_some_and(|access| access.0 & Access::WRITE.0 != 0) {
        check_sticky(caller, resolved)?;
    }
    if let (Some(access), Some(index)) = (ask.ancestor, resolved.ancestor_index()) {
        check_node(caller, resolved, index, access)?;
    }
    if let (Some(access), Some(index)) = (ask.parent, parent) {
        check_node(caller, resolved, index, access)?;
    }
    let Some(last) = resolved.last() else { return Ok(()) };
    if let Some(access) = ask.path {
        check_node(caller, resolved, resolved.nodes.len() - 1, access)?;
    }
    if ask.owner && last.inode.owner != caller.user {
        let message = format!("Permission denied. user={} is not the owner of inode={}", caller.user, resolved.path);
        return Err(NsError::denied(caller, message));
    }
    Ok(())
}

pub(crate) fn check_node(caller: &Caller, resolved: &Resolved, index: usize, access: Access) -> Result<(), NsError> {
    let Some(node) = resolved.nodes.get(index) else { return Ok(()) };
    if allows(caller, &node.inode, access) {
        return Ok(());
    }
    Err(denied(caller, &node.inode, &resolved.path_at(index), access))
}

/// Where the three classes stand in a mode.
const OWNER: u16 = 6;
const GROUP: u16 = 3;
const OTHERS: u16 = 0;

/// What is granted to one whose groups are not known is granted whatever they are.
pub(crate) fn allows(caller: &Caller, inode: &Inode, access: Access) -> bool {
    if caller.superuser {
        return true;
    }
    let bits = |class: u16| (inode.mode >> class & 7) as u8;
    let grants = |class: u16| bits(class) & access.0 == access.0;
    if inode.owner == caller.user {
        return grants(OWNER);
    }
    if inode.extra.has_access_acl() {
        let groups = caller.groups_known.then_some(caller.groups.as_slice());
        return crate::acl::granted(inode, &caller.user, groups, access.0).unwrap_or_else(|| grants(OTHERS));
    }
    match caller.groups_known {
        true => grants(if caller.groups.contains(&inode.group) { GROUP } else { OTHERS }),
        // The class of others may have more than the group, which is kept out that way.
        false => grants(GROUP) && grants(OTHERS),
    }
}

pub(crate) fn denied(caller: &Caller, inode: &Inode, path: &str, access: Access) -> NsError {
    let inode = described(inode, path);
    NsError::denied(caller, format!("Permission denied: user={}, access={access}, inode={inode}", caller.user))
}

/// Below a sticky directory only the owners of directory and child may remove the child.
pub(crate) fn breaks_sticky(caller: &Caller, parent: &Inode, child: &Inode) -> bool {
    guards_children(caller, parent) && child.owner != caller.user
}

/// The sticky bit of the directory keeps this caller from what others own in it.
pub(crate) fn guards_children(caller: &Caller, parent: &Inode) -> bool {
    !caller.superuser && parent.mode & 0o1000 != 0 && parent.owner != caller.user
}

pub(crate) fn denied_sticky(
    caller: &Caller,
    (parent, parent_path): (&Inode, &str),
    (child, child_path): (&Inode, &str),
) -> NsError {
    let (child, parent) = (described(child, child_path), described(parent, parent_path));
    let message = format!("Permission denied by sticky bit: user={}, path={child}, parent={parent}", caller.user);
    NsError::denied(caller, message)
}

pub(crate) fn check_sticky(caller: &Caller, resolved: &Resolved) -> Result<(), NsError> {
    if let (Some(parent), Some(index), Some(child)) = (resolved.parent(), resolved.parent_index(), resolved.last())
        && breaks_sticky(caller, &parent.inode, &child.inode)
    {
        let parent_path = resolved.path_at(index);
        return Err(denied_sticky(caller, (&parent.inode, &parent_path), (&child.inode, resolved.path.as_str())));
    }
    Ok(())
}

/// In the change: the rights on what the path names, and that what is below was examined.
pub(crate) fn check_top(caller: &Caller, resolved: &Resolved, examined: Option<InodeId>) -> Result<(), NsError> {
    let top = resolved.last().filter(|node| node.inode.child_count() > 0).map(|node| node.inode.id);
    let ask = Ask { parent: Some(Access::WRITE), path: top.map(|_| Access::ALL), ..Ask::default() };
    check(caller, resolved, ask)?;
    if caller.superuser || top.is_none() || top == examined {
        return Ok(());
    }
    Err(NsError::NotExamined(format!("{} was replaced while its rights were examined; try again", resolved.path)))
}

fn described(inode: &Inode, path: &str) -> String {
    let kind = if inode.is_directory() { 'd' } else { '-' };
    format!("\"{path}\":{}:{}:{kind}{}", inode.owner, inode.group, symbols(inode.mode))
}

/// `rwxr-xr-t`, as ls shows it.
fn symbols(mode: u16) -> String {
    let mut text: String =
        (0..9).map(|place| if mode >> (8 - place) & 1 == 1 { ['r', 'w', 'x'][place % 3] } else { '-' }).collect();
    if mode & 0o1000 != 0 {
        let last = if mode & 1 == 1 { 't' } else { 'T' };
        text.pop();
        text.push(last);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_a_listing() {
        for (mode, text) in
            [(0o755, "rwxr-xr-x"), (0o1777, "rwxrwxrwt"), (0o1770, "rwxrwx--T"), (0o640, "rw-r-----"), (0, "---------")]
        {
            assert_eq!(symbols(mode), text);
        }
    }
}
