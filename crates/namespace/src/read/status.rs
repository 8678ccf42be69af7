//! What an inode looks like from outside.

use crate::error::{Answer, Failure, NsError, split};
use crate::record::{Body, Inode};
use crate::request::Caller;
use crate::reserved;
use crate::resolve::{self, Purpose, resolve};
use crate::view::{Kind, Status};
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
        Err(Failure::Refused(NsError::ThroughFile(_))) if caller.superuser => Ok(None),
        Err(failure) => Err(failure),
    })
}

/// Where an inode stands. `None`: nowhere (any more).
pub fn path_of_inode(rows: &dyn Rows, id: InodeId) -> Result<Option<String>, RowsError> {
    resolve::path_of(rows, id)
}

pub(crate) fn status_of(inode: &Inode, name: &str) -> Status {
    into_status(inode.clone(), name.as_bytes().to_vec())
}

/// As [`status_of`], without a copy of the texts: for listings.
pub(super) fn into_status(inode: Inode, name: Vec<u8>) -> Status {
    let directory = Status {
        kind: Kind::Directory,
        name,
        len: 0,
        mode: inode.mode,
        modified: inode.modified,
        accessed: inode.accessed,
        replication: 0,
        block_len: 0,
        id: inode.id,
        child_count: inode.child_count(),
        acl: !inode.extra.acl.is_empty(),
        owner: inode.owner,
        group: inode.group,
    };
    match inode.body {
        Body::Directory { .. } => directory,
        Body::File(file) => Status {
            kind: Kind::File,
            len: file.len,
            replication: file.replication,
            block_len: file.block_len,
            ..directory
        },
    }
}
