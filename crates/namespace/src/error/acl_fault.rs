//! Access lists that cannot be.

use crate::acl_entry::{AclKey, AclScope};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclFault {
    /// An entry of a kind that has no names.
    Named {
        key: AclKey,
        access: u8,
    },
    /// Two entries with the same scope, kind and name.
    Repeated,
    NameLen,
    TooMany {
        scope: AclScope,
        count: usize,
    },
    /// The mask is needed, and was to be removed.
    NoMask,
    /// Owner, group or others have no entry.
    NoBase(AclScope),
    /// Only directories have entries for what is made in them.
    DefaultOfFile,
}
