//! Limits of a directory, and what is counted against them.

use crate::error::{Answer, NsError, split};
use crate::permission::{self, Access, Ask};
use crate::quota::{self, Limits, Usage};
use crate::request::Caller;
use crate::resolve::{Purpose, resolve};
use types::FsPath;
use types::rows::Rows;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub limits: Limits,
    /// Of the whole tree, the directory itself included.
    pub used: Usage,
}

/// `None`: it has no limits of its own, so nothing is counted. Needs READ and EXECUTE.
pub fn quota(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Option<Quota>> {
    let run = || {
        let resolved = resolve(rows, caller, path, Purpose::Find)?;
        let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
        if !node.inode.is_directory() {
            return Ok(None);
        }
        permission::check(rows, caller, &resolved, Ask { path: Some(Access::READ_EXECUTE), ..Ask::default() })?;
        let payer = quota::payer(rows, node.inode.id)?;
        Ok(payer.map(|payer| Quota { limits: payer.limits, used: payer.used }))
    };
    split(run())
}
