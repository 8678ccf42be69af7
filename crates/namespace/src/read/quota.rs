//! Limits of a directory, and what is counted against them.

use crate::access::Access;
use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, NsError, split};
use crate::permission::{self, Ask};
use crate::quota::Limits;
use crate::resolve::resolve;
use crate::tree_usage::TreeUsage;
use crate::usage::tally;
use types::FsPath;
use types::rows::Rows;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub limits: Limits,
    /// Of the whole tree, the directory itself included.
    pub used: TreeUsage,
}

/// `None`: it has no limits of its own, which is all it tells then. Needs READ and EXECUTE.
pub fn quota(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Option<Quota>> {
    let run = || {
        let resolved = resolve(rows, caller, path, Purpose::Find)?;
        let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
        if !node.inode.is_directory() {
            return Ok(None);
        }
        permission::check(caller, &resolved, Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() })?;
        let tally = tally(rows, node.inode.id)?;
        let used = tally.with_directory();
        Ok(Some(Quota { limits: tally.limits, used }).filter(|quota| !quota.limits.is_none()))
    };
    split(run())
}
