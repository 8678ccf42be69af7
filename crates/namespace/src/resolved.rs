//! A path and the inodes along it.

use crate::inode::Node;
use types::FsPath;

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
            1 => Some(self.last_index()),
            _ => None,
        }
    }

    pub(crate) fn parent(&self) -> Option<&Node> {
        self.nodes.get(self.parent_index()?)
    }

    /// Place in `nodes` of the closest directory above the last name that exists; `None` for the root itself.
    pub(crate) fn ancestor_index(&self) -> Option<usize> {
        if self.missing.is_empty() { self.nodes.len().checked_sub(2) } else { Some(self.last_index()) }
    }

    fn last_index(&self) -> usize {
        assert!(!self.nodes.is_empty(), "{} does not begin at the root", self.path);
        self.nodes.len() - 1
    }

    /// The path of `nodes[index]`.
    pub(crate) fn path_at(&self, index: usize) -> String {
        let names: Vec<&str> = self.nodes.iter().take(index + 1).skip(1).map(|node| node.place.name.as_str()).collect();
        format!("/{}", names.join("/"))
    }
}
