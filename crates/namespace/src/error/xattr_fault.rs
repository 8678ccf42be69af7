//! Changes of extended attributes that cannot be.

use crate::xattr_name::XattrName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrFault {
    /// One of those that were asked for by name.
    NotFound,
    NotThereToRemove,
    /// It exists, and is not to be replaced.
    Exists(XattrName),
    /// It does not exist, and is not to be made.
    Missing(XattrName),
    /// The mark of unreadable files, on a directory.
    MarkOnDirectory(XattrName),
    TooMany,
    /// Bytes of name and value.
    TooLong {
        len: usize,
    },
    NameLen,
}
