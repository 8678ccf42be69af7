//! One entry of an access list.

/// The order is that of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclScope {
    Access,
    /// What children made from now on begin with.
    Default,
}
types::numbered!(AclScope { 0 => Access, 1 => Default });

/// The order is that of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclKind {
    User,
    Group,
    Mask,
    Other,
}
types::numbered!(AclKind { 0 => User, 1 => Group, 2 => Mask, 3 => Other });

/// Whom an entry is about; `None` is the owner, the group, or what has no name at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclKey {
    pub scope: AclScope,
    pub kind: AclKind,
    pub name: Option<String>,
}
types::record!(AclKey { 0: scope, 1: kind, 2: name });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclEntry {
    pub key: AclKey,
    /// Read 4, write 2, execute 1.
    pub access: u8,
}
types::record!(AclEntry { 0: key, 1: access });
