//! Adding children to directories, removing and moving them: what several operations share.

use crate::acl;
use crate::context::Context;
use crate::deleted_trees;
use crate::error::absent::Absent;
use crate::error::{Failure, NsError, corrupt};
use crate::inode::{Node, Place, change_children, hook_node, next_inode, unhook_node};
use crate::record::{Body, Extra, Inode};
use crate::resolved::Resolved;
use crate::usage;
use types::limits::{CHILDREN_COUNT_MAX, MODE_MASK, NAME_LEN_MAX};
use types::{InodeId, Millis};

/// What directories made on the way to a new inode grant their owner in any case.
const PARENT_MODE_AT_LEAST: u16 = 0o300;

/// What a new inode may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// With the client's umask applied.
    pub(crate) masked: u16,
    /// Without: what counts where the parent has defaults for its children, since these take the umask's place. `None`:
    /// as masked.
    pub(crate) unmasked: Option<u16>,
}

impl Mode {
    pub(crate) fn new(masked: u16, unmasked: Option<u16>) -> Self {
        Self { masked: masked & MODE_MASK, unmasked: unmasked.map(|mode| mode & MODE_MASK) }
    }
}

/// Refuses if anything but the last name is missing.
pub(crate) fn check_parent(resolved: &Resolved) -> Result<(), NsError> {
    if resolved.missing.len() <= 1 {
        return Ok(());
    }
    let parent = resolved.path.parent().map(|path| path.to_string()).unwrap_or_default();
    Err(NsError::NotFound(Absent::Parent(parent)))
}

/// A file or directory that is to be made.
pub(crate) struct New {
    /// `Some`: one that was reserved, that nothing has and nothing had.
    pub(crate) id: Option<InodeId>,
    pub(crate) mode: Mode,
    pub(crate) body: Body,
}

/// Makes what the path names, and before it all directories that are missing on the way.
pub(crate) fn make(
    context: &mut Context<'_>,
    resolved: &mut Resolved,
    parents: Mode,
    new: New,
) -> Result<Node, Failure> {
    let as_parent = |mode: u16| mode & 0o777 | PARENT_MODE_AT_LEAST;
    let parents = Mode { masked: as_parent(parents.masked), unmasked: parents.unmasked.map(as_parent) };
    let mut made_above = 0;
    while resolved.missing.len() > 1 {
        let id = next_inode(context.rows)?;
        make_child(context, resolved, id, parents, Body::Directory { child_count: 0 })?;
        made_above += 1;
    }
    let id = match new.id {
        Some(id) => id,
        None => next_inode(context.rows)?,
    };
    let node = make_child(context, resolved, id, new.mode, new.body)?;
    // All at once: one climb for each new directory of a deep path would be a thousand climbs through a thousand
    // levels.
    usage::add(context.rows, node.place.parent, &node.inode, made_above)?;
    Ok(node)
}

/// Makes the first of the missing names. The caller adds it to the counts above.
fn make_child(
    context: &mut Context<'_>,
    resolved: &mut Resolved,
    id: InodeId,
    mode: Mode,
    body: Body,
) -> Result<Node, Failure> {
    assert!(!resolved.missing.is_empty(), "nothing is missing in {}", resolved.path);
    let name = resolved.missing.remove(0);
    check_room(resolved, &name)?;
    let parent = resolved.nodes.last_mut().ok_or_else(|| corrupt("make an inode", "a path without a root"))?;
    let accessed = if matches!(body, Body::File(_)) { context.now } else { Millis(0) };
    let mut inode = Inode {
        id,
        owner: context.caller.user.clone(),
        group: parent.inode.group.clone(),
        mode: mode.unmasked.unwrap_or(mode.masked),
        modified: context.now,
        accessed,
        body,
        extra: Extra::default(),
    };
    if !acl::inherit(&parent.inode, &mut inode) {
        inode.mode = mode.masked;
    }
    let node = Node { place: Place { parent: parent.inode.id, name }, inode };
    hook_node(context.rows, &node);
    change_children(context, parent, 1)?;
    resolved.nodes.push(node.clone());
    Ok(node)
}

/// Takes what the path names out of the tree. The name is missing from then on.
pub(crate) fn remove_child(context: &mut Context<'_>, resolved: &mut Resolved) -> Result<(), Failure> {
    assert!(resolved.missing.is_empty(), "{} can not be removed", resolved.path);
    let (true, Some(node)) = (resolved.nodes.len() > 1, resolved.nodes.pop()) else {
        return Err(corrupt("remove an inode", "the root is not a directory").into());
    };
    resolved.missing.push(node.place.name.clone());
    usage::remove(context.rows, node.place.parent, &node.inode)?;
    unhook_node(context.rows, &node);
    deleted_trees::doom_tree(context, node.inode)?;
    if let Some(parent) = resolved.nodes.last_mut() {
        change_children(context, parent, -1)?;
    }
    Ok(())
}

/// Moves what `from` names to the one name that is missing in `to`. One row moves, however large the tree.
pub(crate) fn move_node(context: &mut Context<'_>, mut from: Resolved, mut to: Resolved) -> Result<(), Failure> {
    assert!(from.missing.is_empty() && to.missing.len() == 1, "{} can not move to {}", from.path, to.path);
    let (Some(mut node), Some(name)) = (from.nodes.pop(), to.missing.pop()) else { return Ok(()) };
    let parents = (from.nodes.last(), to.nodes.last());
    let same = parents.0.map(|parent| parent.inode.id) == parents.1.map(|parent| parent.inode.id);
    if !same {
        check_room(&to, &name)?;
    }
    let (Some(from_parent), Some(to_parent)) = (from.nodes.last_mut(), to.nodes.last_mut()) else { return Ok(()) };
    usage::move_tree(context.rows, from_parent.inode.id, to_parent.inode.id, &node.inode)?;
    unhook_node(context.rows, &node);
    node.place = Place { parent: to_parent.inode.id, name };
    hook_node(context.rows, &node);
    if !same {
        change_children(context, from_parent, -1)?;
    }
    // `to` was read last, and has seen what an overwriting rename removed.
    change_children(context, to_parent, if same { 0 } else { 1 })?;
    Ok(())
}

/// Refuses a name, or a child too many, for the last directory that exists.
fn check_room(above: &Resolved, name: &str) -> Result<(), NsError> {
    if name.len() > NAME_LEN_MAX {
        return Err(NsError::NameTooLong { name: name.into() });
    }
    match above.nodes.last() {
        Some(parent) if parent.inode.child_count() >= CHILDREN_COUNT_MAX => {
            Err(NsError::TooManyChildren { path: above.path_at(above.nodes.len() - 1) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{NOWHERE, ROOT};
    use types::FsPath;

    fn root_with(child_count: u32) -> Resolved {
        let inode = Inode {
            id: ROOT,
            owner: "root".into(),
            group: "supergroup".into(),
            mode: 0o755,
            modified: Millis(0),
            accessed: Millis(0),
            body: Body::Directory { child_count },
            extra: Extra::default(),
        };
        let node = Node { place: Place { parent: NOWHERE, name: String::new() }, inode };
        Resolved { path: FsPath::root(), nodes: vec![node], missing: Vec::new() }
    }

    #[test]
    fn a_full_directory_takes_no_more() {
        assert_eq!(check_room(&root_with(CHILDREN_COUNT_MAX - 1), "x"), Ok(()));
        let refused = check_room(&root_with(CHILDREN_COUNT_MAX), "x").unwrap_err();
        assert_eq!(refused, NsError::TooManyChildren { path: "/".into() });
    }

    #[test]
    fn a_name_has_255_bytes_at_most() {
        assert_eq!(check_room(&root_with(0), &"é".repeat(127)), Ok(()));
        assert!(matches!(check_room(&root_with(0), &"é".repeat(128)), Err(NsError::NameTooLong { .. })));
    }
}
