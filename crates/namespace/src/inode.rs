//! Inodes in their rows: finding them, and keeping entry, place and parent in step.

use crate::context::Context;
use crate::damage;
use crate::error::corrupt;
use crate::limits::TREE_DEPTH_MAX;
use crate::record::{Body, Counters, Inode, decode, encode};
use crate::tables::{COUNTERS, COUNTERS_KEY, ENTRY, PLACE, entry_key, inode_key, split_entry};
use types::limits::NAME_LEN_MAX;
use types::rows::{Rows, RowsError, RowsMut};
use types::{Generation, InodeId};

/// The root directory. HDFS starts its ids here as well.
pub const ROOT: InodeId = InodeId(16_385);
/// Parent of the root, in keys.
pub(crate) const NOWHERE: InodeId = InodeId(0);

/// Where an inode stands: the key of its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: InodeId,
    pub(crate) name: String,
}

/// An inode and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) inode: Inode,
}

pub(crate) fn read_entry(rows: &dyn Rows, parent: InodeId, name: &str) -> Result<Option<Inode>, RowsError> {
    match rows.get(ENTRY, &entry_key(parent, name.as_bytes()))? {
        Some(bytes) => Ok(Some(decode("read an inode", &bytes)?)),
        None => Ok(None),
    }
}

/// `None`: there is no such inode, or it is the top of a deleted tree.
pub(crate) fn read_place(rows: &dyn Rows, inode: InodeId) -> Result<Option<Place>, RowsError> {
    let Some(bytes) = rows.get(PLACE, &inode_key(inode))? else { return Ok(None) };
    match split_entry(&bytes).map(|(parent, name)| (parent, std::str::from_utf8(name))) {
        Some((parent, Ok(name))) => Ok(Some(Place { parent, name: name.into() })),
        _ => Err(corrupt("read a place", format!("the place of {inode} is damaged"))),
    }
}

/// The inode with this id, wherever it stands; maybe in a deleted tree (see [`path_of`]).
pub(crate) fn read_node(rows: &dyn Rows, id: InodeId) -> Result<Option<Node>, RowsError> {
    let Some(place) = read_place(rows, id)? else { return Ok(None) };
    match read_entry(rows, place.parent, &place.name)? {
        Some(inode) if inode.id == id => Ok(Some(Node { place, inode })),
        _ => Err(corrupt("read an inode", format!("{id} is not where its place says"))),
    }
}

/// Whether anything stands below the root.
pub fn has_entries(rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(root(rows)?.inode.child_count() > 0)
}

pub(crate) fn root(rows: &dyn Rows) -> Result<Node, RowsError> {
    let inode =
        read_entry(rows, NOWHERE, "")?.ok_or_else(|| corrupt("find the root", "the namespace was never formatted"))?;
    Ok(Node { place: Place { parent: NOWHERE, name: String::new() }, inode })
}

/// Where an inode stands today. `None`: it does not exist, it is part of a deleted tree, or it lies too deep.
pub(crate) fn path_of(rows: &dyn Rows, id: InodeId) -> Result<Option<String>, RowsError> {
    let mut names = Vec::new();
    let mut at = id;
    while at != ROOT {
        let Some(place) = read_place(rows, at)? else { return Ok(None) };
        if names.len() == TREE_DEPTH_MAX {
            return Ok(None); // not an error of the rows: all members would stop over a bound that is wrong
        }
        names.push(place.name);
        at = place.parent;
    }
    names.reverse();
    Ok(Some(format!("/{}", names.join("/"))))
}

/// The inode with this id, if it still stands in the tree; and its path.
pub(crate) fn find_standing(rows: &dyn Rows, id: InodeId) -> Result<Option<(Node, String)>, RowsError> {
    match (read_node(rows, id)?, path_of(rows, id)?) {
        (Some(node), Some(path)) => Ok(Some((node, path))),
        _ => Ok(None),
    }
}

/// Writes an inode that stands where `node` says.
pub(crate) fn write_node(rows: &mut dyn RowsMut, node: &Node) {
    rows.put(ENTRY, &entry_key(node.place.parent, node.place.name.as_bytes()), encode(&node.inode));
}

/// Writes a new inode, or one that moved here.
pub(crate) fn hook_node(rows: &mut dyn RowsMut, node: &Node) {
    assert!(node.place.name.len() <= NAME_LEN_MAX, "the name of {} is too long for a key", node.inode.id);
    debug_assert!(
        damage::is_expected() || matches!(read_entry(rows, node.place.parent, &node.place.name), Ok(None)),
        "{node:?} has no room"
    );
    debug_assert!(
        damage::is_expected() || matches!(read_place(rows, node.inode.id), Ok(None)),
        "{node:?} stands elsewhere as well"
    );
    write_node(rows, node);
    let key = inode_key(node.inode.id);
    rows.put(PLACE, &key, entry_key(node.place.parent, node.place.name.as_bytes()));
}

/// Takes an inode from its place. It is lost unless it is hooked in or doomed.
pub(crate) fn unhook_node(rows: &mut dyn RowsMut, node: &Node) {
    let stands =
        |rows: &dyn Rows| read_place(rows, node.inode.id).is_ok_and(|place| place.as_ref() == Some(&node.place));
    debug_assert!(damage::is_expected() || stands(rows), "{node:?} is not there");
    rows.delete(ENTRY, &entry_key(node.place.parent, node.place.name.as_bytes()));
    rows.delete(PLACE, &inode_key(node.inode.id));
}

/// A child came (+1), went (−1) or changed its name (0).
pub(crate) fn change_children(context: &mut Context<'_>, parent: &mut Node, by: i32) -> Result<(), RowsError> {
    parent.inode.modified = context.now;
    let Body::Directory { child_count } = &mut parent.inode.body else {
        return Err(corrupt("change a directory", format!("{} is a file", parent.inode.id)));
    };
    *child_count = child_count.checked_add_signed(by).ok_or_else(|| {
        corrupt("change a directory", format!("{} has {child_count} children, {by} more", parent.inode.id))
    })?;
    write_node(context.rows, parent);
    Ok(())
}

pub(crate) fn read_counters(rows: &dyn Rows) -> Result<Option<Counters>, RowsError> {
    match rows.get(COUNTERS, COUNTERS_KEY)? {
        Some(bytes) => Ok(Some(decode("read the counters", &bytes)?)),
        None => Ok(None),
    }
}

pub(crate) fn write_counters(rows: &mut dyn RowsMut, counters: Counters) {
    rows.put(COUNTERS, COUNTERS_KEY, encode(&counters));
}

pub(crate) fn next_inode(rows: &mut dyn RowsMut) -> Result<InodeId, RowsError> {
    let mut counters = counters(rows)?;
    debug_assert!(damage::is_expected() || counters.inode >= ROOT, "{ROOT} would be given again");
    counters.inode.0 += 1;
    write_counters(rows, counters);
    Ok(counters.inode)
}

/// Rises for ever, across all blocks.
pub(crate) fn next_generation(rows: &mut dyn RowsMut) -> Result<Generation, RowsError> {
    let mut counters = counters(rows)?;
    counters.generation.0 += 1;
    write_counters(rows, counters);
    Ok(counters.generation)
}

fn counters(rows: &dyn Rows) -> Result<Counters, RowsError> {
    read_counters(rows)?.ok_or_else(|| corrupt("read the counters", "the namespace was never formatted"))
}
