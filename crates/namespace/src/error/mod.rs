//! Why the namespace refuses, and the two ways a call can fail.
//!
//! An error is a kind with its facts: paths, owners, limits and counts. It has no words: the metadata server makes the
//! exceptions of HDFS from it, and other protocols make theirs.

pub mod absent;
pub mod acl_fault;
pub mod block_fault;
pub mod blocked;
pub mod concat_fault;
pub mod denial;
pub mod held;
pub mod lease_fault;
pub mod limit;
pub mod passed;
pub mod rename_fault;
pub mod xattr_fault;

use crate::caller::Caller;
use absent::{Absent, Existing};
use acl_fault::AclFault;
use block_fault::BlockFault;
use blocked::Blocked;
use concat_fault::ConcatFault;
use denial::Denial;
use held::Held;
use lease_fault::LeaseFault;
use limit::Limit;
use passed::Passed;
use rename_fault::RenameFault;
use std::fmt;
use types::FsPath;
use types::path::PathError;
use types::rows::RowsError;
use xattr_fault::XattrFault;

/// What the namespace answers: the inner error is the caller's, the outer one this node's, which must then stop.
pub type Answer<T> = Result<Result<T, NsError>, RowsError>;

/// Why a call was refused. Two variants differ where a caller does, or where the facts are others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NsError {
    NotFound(Absent),
    /// A directory, where a file is needed.
    IsDirectory(FsPath),
    AlreadyExists(Existing),
    /// A directory has the name of the file that is to be created, or to be appended to.
    ExistsAsDirectory {
        path: FsPath,
        append: bool,
    },
    /// The path of something new leads through this file.
    ParentNotDirectory {
        path: String,
    },
    NotEmpty(FsPath),
    /// No new inode may have this path.
    InvalidPath {
        path: FsPath,
        purpose: Purpose,
    },
    /// A path that the store would have to make by itself is none.
    UnusablePath(PathError),
    ReservedName(ReservedName),
    AccessDenied(Box<Denial>),
    /// The path of something that is looked for leads through this file.
    ThroughFile {
        path: String,
    },
    /// It depends on the caller's groups, which nobody could look up. The same call may pass later.
    GroupsUnknown(Box<Denial>),
    /// The file is not open, or not by this client.
    LeaseExpired(Box<LeaseFault>),
    /// Another client has the file open.
    AlreadyBeingCreated(Box<Held>),
    /// The file is taken from a client that had it open: try again later.
    RecoveryInProgress(Box<Held>),
    NameTooLong {
        name: String,
    },
    TooManyChildren {
        path: String,
    },
    /// A file, where a directory is needed.
    NotDirectory(FsPath),
    /// `path` is the directory whose quota it is.
    Quota {
        path: String,
        passed: Passed,
    },
    /// The entry that a listing was to be continued behind is gone.
    ListingStartGone,
    Acl {
        path: FsPath,
        fault: AclFault,
    },
    Xattr(XattrFault),
    Rename(Box<RenameFault>),
    Concat(Box<ConcatFault>),
    Block(Box<BlockFault>),
    /// The request asks for more, or less, than may be.
    Limit(Box<Limit>),
    SafeMode(Blocked),
    /// Not for clients: the tree at this path is not the one that was examined before this was proposed. Whoever
    /// proposed it examines the new one.
    NotExamined(FsPath),
    /// Applying the operation panicked. Nothing was changed.
    Panicked {
        operation: String,
    },
}

/// What a path is resolved for. It decides which refusal a file in the middle of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Something that exists. A file in the middle: ThroughFile.
    Find,
    /// A new file, so it must be a valid name. A file in the middle: ParentNotDirectory.
    Create,
    /// The same, of a directory, or of what is renamed.
    Make,
}

/// Names that stand for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedName {
    /// `.snapshot`, anywhere.
    Snapshot,
    /// `/.reserved`
    Reserved,
}

impl fmt::Display for NsError {
    /// Kind and facts, for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for NsError {}

impl NsError {
    /// The caller lacks a right. If the groups are not known nobody can tell: one may be that of the superusers.
    pub(crate) fn denied(caller: &Caller, denial: Denial) -> Self {
        if caller.groups_known { Self::AccessDenied(denial.into()) } else { Self::GroupsUnknown(denial.into()) }
    }

    pub(crate) fn needs_superuser(caller: &Caller, operation: &'static str) -> Self {
        Self::denied(caller, Denial::NotSuperuser { user: caller.user.clone(), operation })
    }

    pub(crate) fn no_file(path: &FsPath) -> Self {
        Self::NotFound(Absent::Path(path.clone()))
    }

    pub(crate) fn not_a_file(path: &FsPath) -> Self {
        Self::IsDirectory(path.clone())
    }
}

impl From<LeaseFault> for Failure {
    fn from(fault: LeaseFault) -> Self {
        Self::Refused(NsError::LeaseExpired(fault.into()))
    }
}

impl From<BlockFault> for Failure {
    fn from(fault: BlockFault) -> Self {
        Self::Refused(fault.into())
    }
}

impl From<BlockFault> for NsError {
    fn from(fault: BlockFault) -> Self {
        Self::Block(fault.into())
    }
}

impl From<Limit> for Failure {
    fn from(limit: Limit) -> Self {
        Self::Refused(limit.into())
    }
}

impl From<Limit> for NsError {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit.into())
    }
}

impl From<ConcatFault> for Failure {
    fn from(fault: ConcatFault) -> Self {
        Self::Refused(NsError::Concat(fault.into()))
    }
}

impl From<RenameFault> for NsError {
    fn from(fault: RenameFault) -> Self {
        Self::Rename(fault.into())
    }
}

impl From<XattrFault> for Failure {
    fn from(fault: XattrFault) -> Self {
        Self::Refused(NsError::Xattr(fault))
    }
}

impl From<Absent> for Failure {
    fn from(absent: Absent) -> Self {
        Self::Refused(NsError::NotFound(absent))
    }
}

/// Either failure, so that `?` serves both inside the crate. [`split`] parts them again at the door.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(NsError),
    Rows(RowsError),
}

impl From<NsError> for Failure {
    fn from(error: NsError) -> Self {
        Self::Refused(error)
    }
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Self {
        Self::Rows(error)
    }
}

pub(crate) fn split<T>(result: Result<T, Failure>) -> Answer<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(error)) => Ok(Err(error)),
        Err(Failure::Rows(error)) => Err(error),
    }
}

/// A row that contradicts another one: the state of this node is damaged.
pub(crate) fn corrupt(op: &'static str, reason: impl Into<String>) -> RowsError {
    RowsError { op, reason: reason.into() }
}
