//! Totals of a tree, counted in steps so that no call holds the state for long.

use crate::error::{Answer, Failure, NsError, split};
use crate::permission::{self, Access, Ask};
use crate::quota::usage_of;
use crate::record::Inode;
use crate::request::Caller;
use crate::resolve::{Purpose, resolve};
use crate::walk::Walk;
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

/// A count under way. Changes of the tree meanwhile are seen where the count has not been yet.
#[derive(Clone, Debug)]
pub struct Summary {
    totals: Totals,
    walk: Option<Walk>,
}

impl Summary {
    /// Needs READ and EXECUTE on each directory of the tree.
    pub fn start(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Self> {
        split(Self::begin(rows, caller, path))
    }

    fn begin(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Result<Self, Failure> {
        let resolved = resolve(rows, caller, path, Purpose::Find)?;
        let top = resolved.last().ok_or_else(|| NsError::no_file(path))?.inode.clone();
        let mut totals = Totals::default();
        if let Some(file) = top.file() {
            totals.add_file(rows, &top, file.len)?;
            return Ok(Self { totals, walk: None });
        }
        permission::check(rows, caller, &resolved, Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() })?;
        totals.directory_count = 1;
        Ok(Self { totals, walk: Some(Walk::new(top, resolved.path.as_str())) })
    }

    /// Looks at up to `entries_max` more entries. `Some`: that was all of them.
    pub fn step(&mut self, rows: &dyn Rows, caller: &Caller, entries_max: usize) -> Answer<Option<Totals>> {
        let Some(walk) = &mut self.walk else { return Ok(Ok(Some(self.totals))) };
        let totals = &mut self.totals;
        let ended =
            walk.step(rows, entries_max.max(1), &mut |seen| count(rows, caller, totals, seen.inode, &|| seen.path()));
        split(ended.map(|ended| ended.then_some(*totals)))
    }
}

fn count(
    rows: &dyn Rows,
    caller: &Caller,
    totals: &mut Totals,
    inode: &Inode,
    path: &dyn Fn() -> String,
) -> Result<(), Failure> {
    match inode.file() {
        Some(file) => totals.add_file(rows, inode, file.len)?,
        None if permission::allows(caller, inode, Access::READ_EXECUTE) => totals.directory_count += 1,
        None => return Err(permission::denied(caller, inode, &path(), Access::READ_EXECUTE).into()),
    }
    Ok(())
}

impl Totals {
    fn add_file(&mut self, rows: &dyn Rows, inode: &Inode, len: u64) -> Result<(), RowsError> {
        self.file_count += 1;
        self.len = self.len.saturating_add(len);
        let space = usage_of(rows, inode)?.space;
        self.space = self.space.saturating_add(u64::try_from(space).unwrap_or(u64::MAX));
        Ok(())
    }
}
