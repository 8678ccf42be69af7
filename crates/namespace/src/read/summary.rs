//! Totals of a tree, counted in steps so that no call holds the state for long.

use crate::error::{Answer, Failure, NsError, split};
use crate::permission::{self, Access, Ask};
use crate::record::{File, Inode};
use crate::request::Caller;
use crate::resolve::{Purpose, resolve};
use crate::walk::Walk;
use types::FsPath;
use types::rows::Rows;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub len: u64,
    pub file_count: u64,
    /// The directory itself included.
    pub directory_count: u64,
    /// Lengths times replication.
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
            totals.add_file(file);
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
        let ended = walk.step(rows, entries_max.max(1), &mut |seen| {
            count(caller, totals, seen.inode, &|| seen.path()).map_err(Failure::from)
        });
        split(ended.map(|ended| ended.then_some(*totals)))
    }
}

fn count(caller: &Caller, totals: &mut Totals, inode: &Inode, path: &dyn Fn() -> String) -> Result<(), NsError> {
    match inode.file() {
        Some(file) => totals.add_file(file),
        None if permission::allows(caller, inode, Access::READ_EXECUTE) => totals.directory_count += 1,
        None => return Err(permission::denied(caller, inode, &path(), Access::READ_EXECUTE)),
    }
    Ok(())
}

impl Totals {
    fn add_file(&mut self, file: &File) {
        self.file_count += 1;
        self.len = self.len.saturating_add(file.len);
        self.space = self.space.saturating_add(file.len.saturating_mul(file.replication.into()));
    }
}
