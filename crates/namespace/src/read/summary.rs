//! Totals of a tree. They stand in the row of its top; what takes steps is the look whether the caller may know them.

use crate::access::Access;
use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, Failure, NsError, split};
use crate::permission::{self, Ask};
use crate::record::Inode;
use crate::resolve::resolve;
use crate::tree_usage::TreeUsage;
use crate::usage::{tally, usage_of_tree};
use crate::walk::{Seen, Walk};
use types::FsPath;
use types::rows::{Rows, RowsError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub len: u64,
    pub file_count: u64,
    /// The directory itself included.
    pub directory_count: u64,
    /// Bytes with all replicas; a block under construction counts as a full one, as in HDFS.
    pub space: u64,
}

/// A question under way. Rights that change meanwhile are seen where the walk has not been yet.
#[derive(Clone, Debug)]
pub struct Summary {
    totals: Totals,
    /// `None`: no directory is below the top.
    walk: Option<Walk>,
}

impl Summary {
    /// The totals are those of now. Needs READ and EXECUTE on each directory of the tree.
    pub fn start(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Self> {
        split(Self::begin(rows, caller, path))
    }

    fn begin(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Result<Self, Failure> {
        let resolved = resolve(rows, caller, path, Purpose::Find)?;
        let top = resolved.last().ok_or_else(|| NsError::no_file(path))?.inode.clone();
        if top.is_directory() {
            permission::check(caller, &resolved, Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() })?;
        }
        let totals = Totals::from(usage_of_tree(rows, &top)?);
        let walk = !caller.superuser && has_directories(rows, &top)?;
        Ok(Self { totals, walk: walk.then(|| Walk::new(top, resolved.path.as_str())) })
    }

    /// Looks at up to `entries_max` more entries. `Some`: that was all of them.
    pub fn step(&mut self, rows: &dyn Rows, caller: &Caller, entries_max: usize) -> Answer<Option<Totals>> {
        let Some(walk) = &mut self.walk else { return Ok(Ok(Some(self.totals))) };
        let ended = walk.step(rows, entries_max.max(1), &mut |seen| {
            check(caller, &seen)?;
            Ok(has_directories(rows, seen.inode)?)
        });
        split(ended.map(|ended| ended.then_some(self.totals)))
    }
}

fn check(caller: &Caller, seen: &Seen<'_>) -> Result<(), NsError> {
    if !seen.inode.is_directory() || permission::allows(caller, seen.inode, Access::READ_EXECUTE) {
        return Ok(());
    }
    Err(permission::denied(caller, seen.inode, &seen.path(), Access::READ_EXECUTE))
}

fn has_directories(rows: &dyn Rows, inode: &Inode) -> Result<bool, RowsError> {
    Ok(inode.child_count() > 0 && tally(rows, inode.id)?.below.directories > 0)
}

impl From<TreeUsage> for Totals {
    fn from(used: TreeUsage) -> Self {
        let told = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self { len: told(used.len), file_count: used.files, directory_count: used.directories, space: told(used.space) }
    }
}
