//! What is not there, and what is there already.

use super::lease_fault::Writing;
use types::{FsPath, InodeId};

/// Nothing stands there. One variant for each part that the path plays in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// What is to be read, written or listed.
    Path(FsPath),
    Inode(InodeId),
    /// The file that a client says it writes.
    Written(Writing),
    /// What is to be overwritten, in a request that does not create.
    Overwritten(FsPath),
    /// The directory above something new.
    Parent(String),
    RenameParent(FsPath),
    RenameSource(FsPath),
    /// What has the access list or the extended attribute.
    Attributed(FsPath),
    Appended {
        path: FsPath,
        client_host: String,
    },
    /// What shall get other times.
    Timed(FsPath),
    /// What shall get another owner, group or mode.
    Owned(FsPath),
    /// The directory that shall get a quota.
    Limited(FsPath),
    /// What the caller asks its rights on.
    Examined(FsPath),
    /// A path below `/.reserved` that leads nowhere.
    Reserved(FsPath),
}

/// What stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existing {
    File {
        path: FsPath,
        client_host: String,
    },
    /// A file where a directory is to be made.
    NotADirectory(FsPath),
    /// Source and target are the same.
    RenameSource {
        from: FsPath,
        to: FsPath,
    },
    RenameTarget(FsPath),
}
