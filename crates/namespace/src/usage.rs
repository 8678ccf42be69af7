//! What stands in the tree of each directory: files, directories, bytes, bytes with all replicas; and the limits on it.
//!
//! ```text
//!            /         its row counts all that stands below it
//!           / \
//!          a   c       what is made in /a/b is added to the rows of b, a and /
//!         /
//!        b
//! ```
//!
//! Promise: the row of a directory that can be reached counts exactly what stands below it, the directory itself
//! excluded ([`crate::check`] adds it up). A change climbs from its place to the root and adds to each row on the way.
//! So a tree of any size is moved, deleted, summed up or limited for the price of its depth, and nothing walks it. A
//! directory with nothing below it and no limits has no row.
//!
//! Beside the counts the row has an upper bound of the levels below, greater than that of each directory in it. A climb
//! that adds something raises it; only what the number of directories excludes lowers it, as nobody may look for the
//! deepest. A move that might make a tree deeper than [`TREE_DEPTH_MAX`] is refused, so a climb is never longer.
//!
//! Counts decide about quotas and nothing else, so one that would fall below zero stays there: all members would stop
//! over an error.
//!
//! As in HDFS a block under construction counts as a full one, and a limit that is passed already refuses only what
//! makes it worse.

use crate::block::last_row;
use crate::damage;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, corrupt};
use crate::inode::{Node, ROOT, path_of, read_place};
use crate::limits::TREE_DEPTH_MAX;
use crate::quota::Limits;
use crate::record::{Inode, decode, encode};
use crate::tables::{USAGE, inode_key};
use crate::tree_usage::TreeUsage;
use types::InodeId;
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError, RowsMut};

/// The row of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryUsage {
    pub(crate) below: TreeUsage,
    pub(crate) limits: Limits,
    /// At least as many levels as stand below: 1 with nothing but files and empty directories.
    pub(crate) height_max: u32,
}
types::record!(DirectoryUsage { 0: below, 1: limits, 2: height_max });

/// What becomes of a charge that a limit does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Refused,
    /// What is new comes name by name, as HDFS makes it: the first name that is too many is refused, and counted in
    /// what is said.
    RefusedByName,
    /// For what has happened already, and for what frees more than it takes.
    Recorded,
}

impl DirectoryUsage {
    /// Something of so many levels stands below. What is counted below allows one level for each directory, and one for
    /// files.
    fn raise(&mut self, height: u32) {
        let levels = self.below.directories.saturating_add(self.below.files.min(1));
        self.height_max = self.height_max.max(height).min(u32::try_from(levels).unwrap_or(u32::MAX));
    }

    /// What the directory takes with all below it, as quotas count.
    pub(crate) fn with_directory(&self) -> TreeUsage {
        let directories = self.below.directories.saturating_add(1);
        TreeUsage { directories, ..self.below }
    }
}

pub(crate) fn tally(rows: &dyn Rows, directory: InodeId) -> Result<DirectoryUsage, RowsError> {
    match rows.get(USAGE, &inode_key(directory))? {
        Some(bytes) => decode("read what a directory holds", &bytes),
        None => Ok(DirectoryUsage::default()),
    }
}

fn write(rows: &mut dyn RowsMut, directory: InodeId, tally: &DirectoryUsage) {
    let key = inode_key(directory);
    if *tally == DirectoryUsage::default() { rows.delete(USAGE, &key) } else { rows.put(USAGE, &key, encode(tally)) }
}

/// Of one inode, whatever is below it.
fn usage_of(rows: &dyn Rows, inode: &Inode) -> Result<TreeUsage, RowsError> {
    let Some(file) = inode.file() else { return Ok(TreeUsage::DIRECTORY) };
    let mut charged = u128::from(file.len);
    if file.open.is_some()
        && let Some((_, row)) = last_row(rows, inode)?
        && !row.is_complete()
        // One that is being cut was charged as what it has, and gets smaller.
        && row.cut_len().is_none()
    {
        charged = charged.saturating_sub(row.len.into()) + u128::from(file.block_len);
    }
    Ok(TreeUsage { files: 1, directories: 0, len: file.len.into(), space: charged * u128::from(file.replication) })
}

/// Of an inode with all below it.
pub(crate) fn usage_of_tree(rows: &dyn Rows, top: &Inode) -> Result<TreeUsage, RowsError> {
    let own = usage_of(rows, top)?;
    if top.child_count() == 0 {
        return Ok(own);
    }
    Ok(own.plus(tally(rows, top.id)?.below))
}

/// Those who count what is in `directory`, the deepest first; none for a deleted tree.
fn counting(rows: &dyn Rows, directory: InodeId) -> Result<Vec<InodeId>, Failure> {
    let mut found = vec![directory];
    let mut at = directory;
    while at != ROOT {
        let Some(place) = read_place(rows, at)? else { return Ok(Vec::new()) };
        if found.len() > TREE_DEPTH_MAX {
            // Not an error of the rows: all members would stop over a bound that is wrong.
            return Err(Limit::DirectoryDepth(directory).into());
        }
        at = place.parent;
        found.push(at);
    }
    Ok(found)
}

/// What becomes of a count.
struct Step {
    less: TreeUsage,
    more: TreeUsage,
    /// Levels of what stands below from now on.
    height: u32,
    excess: Excess,
}

impl Step {
    /// What is gone from below.
    fn freed(less: TreeUsage) -> Self {
        Self { less, more: TreeUsage::default(), height: 0, excess: Excess::Recorded }
    }
}

fn change(rows: &mut dyn RowsMut, directory: InodeId, step: &Step) -> Result<(), Failure> {
    let mut row = tally(rows, directory)?;
    let before = row.with_directory();
    debug_assert!(
        damage::is_expected() || row.below.has(step.less),
        "{directory} counts less than what leaves it: {row:?}"
    );
    row.below = row.below.less(step.less).plus(step.more);
    row.raise(step.height);
    if step.excess != Excess::Recorded
        && let Err(passed) = row.limits.check(before, row.with_directory())
    {
        let passed = if step.excess == Excess::RefusedByName { passed.at_first_name(before) } else { passed };
        let path = path_of(rows, directory)?.unwrap_or_default();
        return Err(NsError::Quota { path, passed }.into());
    }
    write(rows, directory, &row);
    Ok(())
}

/// Levels of an inode with all below it, at most.
fn height_of_tree(rows: &dyn Rows, top: &Inode) -> Result<u32, RowsError> {
    let below = if top.child_count() == 0 { 0 } else { tally(rows, top.id)?.height_max };
    Ok(below.saturating_add(1))
}

/// A file that is about to change.
pub(crate) struct UsageUpdate {
    parent: InodeId,
    before: TreeUsage,
}

/// Begins a change of a file. Whoever begins one settles it.
pub(crate) fn bill(rows: &dyn Rows, node: &Node) -> Result<UsageUpdate, RowsError> {
    Ok(UsageUpdate { parent: node.place.parent, before: usage_of(rows, &node.inode)? })
}

impl UsageUpdate {
    /// Another file of the same directory is about to become part of this one.
    pub(crate) fn joins(&mut self, rows: &dyn Rows, other: &Inode) -> Result<(), RowsError> {
        self.before = self.before.plus(usage_of(rows, other)?);
        Ok(())
    }

    /// `inode` as it is in the rows now.
    pub(crate) fn settle(self, rows: &mut dyn RowsMut, inode: &Inode, excess: Excess) -> Result<(), Failure> {
        let after = usage_of(rows, inode)?;
        if after == self.before {
            return Ok(());
        }
        let step = Step { less: self.before, more: after, height: 0, excess };
        for id in counting(rows, self.parent)? {
            change(rows, id, &step)?;
        }
        Ok(())
    }
}

/// A new inode stands in `parent`. With it were made, and not counted yet, `parent` and others above it: `made_above`
/// in all.
pub(crate) fn add(rows: &mut dyn RowsMut, parent: InodeId, inode: &Inode, made_above: usize) -> Result<(), Failure> {
    let more = usage_of(rows, inode)?;
    let mut step = Step { less: TreeUsage::default(), more, height: 1, excess: Excess::RefusedByName };
    let counting = counting(rows, parent)?;
    debug_assert!(
        damage::is_expected() || made_above < counting.len(),
        "{made_above} directories above {} are new, with the root",
        inode.id
    );
    for (place, id) in counting.into_iter().enumerate() {
        change(rows, id, &step)?;
        step.height += 1;
        if place < made_above {
            step.more.directories += 1;
        }
    }
    Ok(())
}

/// A tree is about to be taken from `parent`, and to be freed.
pub(crate) fn remove(rows: &mut dyn RowsMut, parent: InodeId, top: &Inode) -> Result<(), Failure> {
    let step = Step::freed(usage_of_tree(rows, top)?);
    for id in counting(rows, parent)? {
        change(rows, id, &step)?;
    }
    Ok(())
}

/// A tree moves from one directory to another.
pub(crate) fn move_tree(rows: &mut dyn RowsMut, from: InodeId, to: InodeId, top: &Inode) -> Result<(), Failure> {
    if mutation::is(Mutation::UncountedRenames) {
        return Ok(());
    }
    if from == to {
        return Ok(());
    }
    let (mut from, mut to) = (counting(rows, from)?, counting(rows, to)?);
    let mut height = height_of_tree(rows, top)?;
    if from.is_empty() || to.is_empty() {
        return Err(corrupt("move a tree", format!("a directory above {} has no place", top.id)).into());
    }
    assert!(from.last() == Some(&ROOT) && to.last() == Some(&ROOT), "{} moves inside the tree", top.id);
    // The root is no level.
    let depth = to.len() - 1 + height as usize;
    if depth > TREE_DEPTH_MAX {
        return Err(Limit::RenamedDepth { path: path_of(rows, top.id)?.unwrap_or_default(), depth }.into());
    }
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (from.last(), to.last())
        && one == other
    {
        common.extend(from.pop());
        to.pop();
    }
    let used = usage_of_tree(rows, top)?;
    for id in to {
        change(rows, id, &Step { less: TreeUsage::default(), more: used, height, excess: Excess::Refused })?;
        height += 1;
    }
    for id in from {
        change(rows, id, &Step::freed(used))?;
    }
    for id in common.into_iter().rev() {
        let mut row = tally(rows, id)?;
        if row.height_max >= height {
            break; // and so are all above
        }
        row.raise(height);
        write(rows, id, &row);
        height += 1;
    }
    Ok(())
}

pub(crate) fn set_limits(rows: &mut dyn RowsMut, directory: InodeId, limits: Limits) -> Result<(), RowsError> {
    let tally = DirectoryUsage { limits, ..tally(rows, directory)? };
    write(rows, directory, &tally);
    Ok(())
}

/// A directory is deleted: nobody asks for its count any more.
pub(crate) fn forget(rows: &mut dyn RowsMut, directory: &Inode) {
    if directory.is_directory() {
        rows.delete(USAGE, &inode_key(directory.id));
    }
}
