//! What an inode looks like from outside.

use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, Failure, NsError, split};
use crate::inode;
use crate::reserved;
use crate::resolve::resolve;
use crate::view::Status;
use crate::view::status_of;
use types::rows::{Rows, RowsError};
use types::{FsPath, InodeId};

/// `None`: there is nothing. Needs no right but to pass the directories above.
pub fn status(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Option<Status>> {
    if reserved::is_top(path) {
        return Ok(Ok(Some(reserved::status())));
    }
    split(match resolve(rows, caller, path, Purpose::Find) {
        Ok(resolved) => Ok(resolved.last().map(|node| status_of(&node.inode, ""))),
        // HDFS tells others so, and the superuser not.
        Err(Failure::Refused(NsError::ThroughFile { .. })) if caller.superuser => Ok(None),
        Err(failure) => Err(failure),
    })
}

/// Where an inode stands. `None`: nowhere (any more).
pub fn path_of_inode(rows: &dyn Rows, id: InodeId) -> Result<Option<String>, RowsError> {
    inode::path_of(rows, id)
}
