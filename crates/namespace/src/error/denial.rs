//! Rights that a caller lacks.

use crate::access::Access;
use crate::xattr_name::XattrName;
use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The rights on one file or directory.
    Access {
        user: String,
        access: Access,
        inode: Guarded,
    },
    /// The sticky bit of `parent` keeps `child` for its owner.
    Sticky {
        user: String,
        child: Guarded,
        parent: Guarded,
    },
    NotOwner {
        user: String,
        path: FsPath,
    },
    /// `operation` is for superusers.
    NotSuperuser {
        user: String,
        operation: &'static str,
    },
    /// Only superusers give a file to somebody else.
    NewOwner {
        user: String,
    },
    NotInGroup {
        user: String,
        group: String,
    },
    /// The file has the mark that keeps superusers from reading it.
    UnreadableForSuperusers {
        user: String,
    },
    /// The caller has no part in this space of names.
    XattrSpace(XattrName),
    /// The mark of unreadable files has no value.
    MarkWithValue(XattrName),
    /// The mark of unreadable files stays.
    MarkRemoved(XattrName),
}

/// An inode as far as it decides who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub path: String,
    pub owner: String,
    pub group: String,
    pub mode: u16,
    pub is_directory: bool,
}
