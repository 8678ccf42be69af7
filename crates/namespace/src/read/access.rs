//! May this caller do that?

use crate::access::Access;
use crate::caller::Caller;
use crate::error::absent::Absent;
use crate::error::{Answer, Failure, Purpose, split};
use crate::permission::{self, Ask};
use crate::resolve::resolve;
use types::FsPath;
use types::rows::Rows;

/// Refused with AccessDenied, ThroughFile or NotFound.
pub fn check_access(rows: &dyn Rows, caller: &Caller, path: &FsPath, access: Access) -> Answer<()> {
    split(run(rows, caller, path, access))
}

/// Whether the caller may make a file of this path, there or not, with the directories above that there are not.
pub fn check_may_make(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<()> {
    let run = || {
        let resolved = resolve(rows, caller, path, Purpose::Create)?;
        Ok(permission::check(caller, &resolved, Ask { ancestor: Some(Access::WRITE), ..Ask::default() })?)
    };
    split(run())
}

fn run(rows: &dyn Rows, caller: &Caller, path: &FsPath, access: Access) -> Result<(), Failure> {
    let resolved = resolve(rows, caller, path, Purpose::Find)?;
    if resolved.last().is_none() {
        return Err(Absent::Examined(path.clone()).into());
    }
    Ok(permission::check(caller, &resolved, Ask { path: Some(access), ..Ask::default() })?)
}
