//! Who may do what: owner, group, others, the sticky bit, the superuser. The one place, used by every operation.
//!
//! The rules are those of HDFS's permission checker. Passing the directories above is checked while a path is
//! resolved; an operation then says in an [`Ask`] what else it needs.

use crate::access::Access;
use crate::caller::Caller;
use crate::error::NsError;
use crate::error::denial::{Denial, Guarded};
use crate::record::Inode;
use crate::resolved::Resolved;
use types::InodeId;

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
    if ask.parent.is_some_and(|access| access.bits() & Access::WRITE.bits() != 0) {
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
        let denial = Denial::NotOwner { user: caller.user.clone(), path: resolved.path.clone() };
        return Err(NsError::denied(caller, denial));
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
    let grants = |class: u16| bits(class) & access.bits() == access.bits();
    if inode.owner == caller.user {
        return grants(OWNER);
    }
    if inode.extra.has_access_acl() {
        let groups = caller.groups_known.then_some(caller.groups.as_slice());
        return crate::acl::granted(inode, &caller.user, groups, access.bits()).unwrap_or_else(|| grants(OTHERS));
    }
    match caller.groups_known {
        true => grants(if caller.groups.contains(&inode.group) { GROUP } else { OTHERS }),
        // The class of others may have more than the group, which is kept out that way.
        false => grants(GROUP) && grants(OTHERS),
    }
}

pub(crate) fn denied(caller: &Caller, inode: &Inode, path: &str, access: Access) -> NsError {
    NsError::denied(caller, Denial::Access { user: caller.user.clone(), access, inode: guarded(inode, path) })
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
    let (child, parent) = (guarded(child, child_path), guarded(parent, parent_path));
    NsError::denied(caller, Denial::Sticky { user: caller.user.clone(), child, parent })
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
    Err(NsError::NotExamined(resolved.path.clone()))
}

fn guarded(inode: &Inode, path: &str) -> Guarded {
    Guarded {
        path: path.into(),
        owner: inode.owner.clone(),
        group: inode.group.clone(),
        mode: inode.mode,
        is_directory: inode.is_directory(),
    }
}
