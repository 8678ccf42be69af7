//! Walking over a tree in memory that grows with its depth alone, a few entries at a time.

use crate::error::limit::Limit;
use crate::error::{Failure, corrupt};
use crate::limits::TREE_DEPTH_MAX;
use crate::record::{Inode, InodeRow};
use crate::tables::{ENTRY, entry_key, split_entry};
use std::ops::{Bound, ControlFlow};
use types::InodeId;
use types::rows::Rows;

/// What a scan shows each child to.
type VisitChild<'a> = dyn FnMut(&str, Inode) -> Result<ControlFlow<()>, Failure> + 'a;

type VisitEntry<'a> = dyn FnMut(&str, InodeRow<'_>) -> Result<ControlFlow<()>, Failure> + 'a;

/// Shows the children of a directory in order of their names, from behind `after` on, until the visitor breaks.
pub(crate) fn scan_children(
    rows: &dyn Rows,
    parent: InodeId,
    after: &[u8],
    visit: &mut VisitChild<'_>,
) -> Result<(), Failure> {
    scan_entries(rows, parent, after, &mut |name, row| visit(name, row.to_inode()))
}

/// As [`scan_children`], without a copy of their texts.
pub(crate) fn scan_entries(
    rows: &dyn Rows,
    parent: InodeId,
    after: &[u8],
    visit: &mut VisitEntry<'_>,
) -> Result<(), Failure> {
    // No child has an empty name, so an empty `after` excludes none.
    let from = entry_key(parent, after);
    let mut failed = None;
    rows.scan(ENTRY, Bound::Excluded(&from), &mut |key, value| {
        let Some((at, name)) = split_entry(key) else {
            failed = Some(corrupt("scan a directory", "a key of a wrong length").into());
            return ControlFlow::Break(());
        };
        if at != parent {
            return ControlFlow::Break(());
        }
        let name = match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => {
                failed = Some(corrupt("scan a directory", format!("a name in {parent} is not UTF-8")).into());
                return ControlFlow::Break(());
            }
        };
        match InodeRow::decode("scan a directory", value).map_err(Failure::from).and_then(|row| visit(name, row)) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// A walk that can be left and taken up again; in between the tree may change under it.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Directories being walked, the deepest last.
    levels: Vec<Level>,
    /// Path of the deepest one.
    path: String,
}

#[derive(Clone, Debug)]
struct Level {
    directory: Inode,
    /// Name seen last.
    after: String,
    /// Length of the path without this level.
    path_len: usize,
}

/// One entry on the way, shown before what lies below it.
pub(crate) struct Seen<'a> {
    pub(crate) parent: &'a Inode,
    pub(crate) parent_path: &'a str,
    pub(crate) name: &'a str,
    pub(crate) inode: &'a Inode,
}

impl Seen<'_> {
    pub(crate) fn path(&self) -> String {
        join(self.parent_path, self.name)
    }
}

impl Walk {
    /// Below `directory`, which itself is not shown.
    pub(crate) fn new(directory: Inode, path: &str) -> Self {
        let level = Level { directory, after: String::new(), path_len: 0 };
        Self { levels: vec![level], path: path.into() }
    }

    /// Shows up to `entries_max` entries; the visitor tells whether to walk what is below. `true`: the walk is over.
    pub(crate) fn step(
        &mut self,
        rows: &dyn Rows,
        entries_max: usize,
        visit: &mut dyn FnMut(Seen<'_>) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let mut left = entries_max;
        while let Some(level) = self.levels.last_mut() {
            let mut below = None;
            let mut ended = true;
            let (directory, path) = (&level.directory, self.path.as_str());
            let mut after = None;
            scan_children(rows, directory.id, level.after.as_bytes(), &mut |name, inode| {
                if left == 0 {
                    ended = false;
                    return Ok(ControlFlow::Break(()));
                }
                left -= 1;
                let goes_below = visit(Seen { parent: directory, parent_path: path, name, inode: &inode })?;
                after = Some(name.to_string());
                if inode.child_count() == 0 || !goes_below {
                    return Ok(ControlFlow::Continue(()));
                }
                below = Some(inode);
                ended = false;
                Ok(ControlFlow::Break(()))
            })?;
            if let Some(after) = after {
                level.after = after;
            }
            if let Some(directory) = below {
                let path_len = self.path.len();
                if path_len > 1 {
                    self.path.push('/');
                }
                self.path.push_str(&level.after);
                if self.levels.len() == TREE_DEPTH_MAX {
                    // Not an error of the rows: what moves between two steps of a walk may take it deeper than any tree
                    // is.
                    return Err(Limit::TreeDepth(directory.id).into());
                }
                self.levels.push(Level { directory, after: String::new(), path_len });
            } else if ended {
                assert!(level.path_len <= self.path.len(), "the path of a level is part of those below it");
                self.path.truncate(level.path_len);
                self.levels.pop();
            } else {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn join(path: &str, name: &str) -> String {
    if path == "/" { format!("/{name}") } else { format!("{path}/{name}") }
}
