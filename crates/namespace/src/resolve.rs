//! From a path to the inodes along it.

use crate::error::{Failure, NsError, corrupt};
use crate::inode::{Node, Place, read_entry, read_node, read_place};
use crate::limits::TREE_DEPTH_MAX;
use crate::permission::{self, Access};
use crate::request::Caller;
use crate::reserved::{self, Meaning};
use types::rows::{Rows, RowsError};
use types::{FsPath, InodeId};

/// The root directory. HDFS starts its ids here as well.
pub const ROOT: InodeId = InodeId(16_385);
/// Parent of the root, in keys.
pub(crate) const NOWHERE: InodeId = InodeId(0);

/// What the path is wanted for; decides how a file in the middle of it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Something that exists. A file in the middle: ThroughFile.
    Find,
    /// A new name, so it must be a valid one. A file in the middle: ParentNotDirectory.
    Make,
}

/// A path, as far as it exists.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Without `/.reserved`.
    pub(crate) path: FsPath,
    /// What exists, from the root on; never empty.
    pub(crate) nodes: Vec<Node>,
    /// Names behind the last node.
    pub(crate) missing: Vec<String>,
}

impl Resolved {
    /// What the path names, if it exists.
    pub(crate) fn last(&self) -> Option<&Node> {
        if self.missing.is_empty() { self.nodes.last() } else { None }
    }

    pub(crate) fn into_last(mut self) -> Option<Node> {
        if self.missing.is_empty() { self.nodes.pop() } else { None }
    }

    /// Place in `nodes` of the directory that holds, or would hold, the last name; `None` if it is missing, or above
    /// the root.
    pub(crate) fn parent_index(&self) -> Option<usize> {
        match self.missing.len() {
            0 => self.nodes.len().checked_sub(2),
            1 => Some(self.nodes.len() - 1),
            _ => None,
        }
    }

    pub(crate) fn parent(&self) -> Option<&Node> {
        self.nodes.get(self.parent_index()?)
    }

    /// Place in `nodes` of the closest directory above the last name that exists; `None` for the root itself.
    pub(crate) fn ancestor_index(&self) -> Option<usize> {
        if self.missing.is_empty() { self.nodes.len().checked_sub(2) } else { Some(self.nodes.len() - 1) }
    }

    /// The path of `nodes[index]`.
    pub(crate) fn path_at(&self, index: usize) -> String {
        let names: Vec<&str> = self.nodes.iter().take(index + 1).skip(1).map(|node| node.place.name.as_str()).collect();
        format!("/{}", names.join("/"))
    }
}

/// Walks down, checking that the caller may pass each directory on the way.
pub(crate) fn resolve(rows: &dyn Rows, caller: &Caller, path: &FsPath, purpose: Purpose) -> Result<Resolved, Failure> {
    if purpose == Purpose::Make {
        check_new_path(path)?;
    }
    let path = match reserved::meaning(rows, path)? {
        Meaning::Ordinary => path.clone(),
        Meaning::Other(path) => path,
        Meaning::Nothing if purpose == Purpose::Find => return Ok(missing_below_root(rows, path)?),
        // Nothing may come to stand below `/.reserved`: nobody would find it there.
        Meaning::Nothing => {
            return Err(NsError::NotFound(format!("File for given inode path does not exist: {path}")).into());
        }
    };
    let mut resolved = Resolved { path: path.clone(), nodes: vec![root(rows)?], missing: Vec::new() };
    let mut names = path.components();
    while let Some(name) = names.next() {
        let above = resolved.nodes.len() - 1;
        let directory = &resolved.nodes[above].inode;
        if !directory.is_directory() {
            let message = format!("{} (is not a directory)", resolved.path_at(above));
            return Err(match purpose {
                Purpose::Find => NsError::ThroughFile(message),
                Purpose::Make => NsError::ParentNotDirectory(message),
            }
            .into());
        }
        permission::check_node(caller, &resolved, above, Access::EXECUTE)?;
        match read_entry(rows, directory.id, name)? {
            Some(inode) => {
                let place = Place { parent: directory.id, name: name.into() };
                resolved.nodes.push(Node { place, inode });
            }
            None => {
                resolved.missing.push(name.into());
                resolved.missing.extend(names.by_ref().map(String::from));
            }
        }
    }
    Ok(resolved)
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

/// Nothing is found below `/.reserved` but by one of its ways.
fn missing_below_root(rows: &dyn Rows, path: &FsPath) -> Result<Resolved, RowsError> {
    Ok(Resolved {
        path: path.clone(),
        nodes: vec![root(rows)?],
        missing: path.components().map(String::from).collect(),
    })
}

/// Names HDFS refuses for new inodes. What no path can have at all, the parser refused already.
fn check_new_path(path: &FsPath) -> Result<(), NsError> {
    if !reserved::may_be_made(path) || path.components().any(|name| name.contains(':')) {
        return Err(NsError::invalid_path(path));
    }
    if path.components().any(|name| name == ".snapshot") {
        return Err(NsError::IllegalArgument("\".snapshot\" is a reserved name.".into()));
    }
    Ok(())
}
