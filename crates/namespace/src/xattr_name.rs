//! An extended attribute and its name.

/// The numbers are HDFS's, and stand in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XattrSpace {
    User,
    Trusted,
    Security,
    System,
    Raw,
}
types::numbered!(XattrSpace { 0 => User, 1 => Trusted, 2 => Security, 3 => System, 4 => Raw });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct XattrName {
    pub space: XattrSpace,
    /// Without the space before it.
    pub name: String,
}
types::record!(XattrName { 0: space, 1: name });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    pub name: XattrName,
    pub value: Vec<u8>,
}
types::record!(Xattr { 0: name, 1: value });

impl XattrSpace {
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::User, Self::Trusted, Self::Security, Self::System, Self::Raw].get(usize::from(number)).copied()
    }

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Trusted => "trusted",
            Self::Security => "security",
            Self::System => "system",
            Self::Raw => "raw",
        }
    }
}

impl XattrName {
    /// `security.hdfs.unreadable.by.superuser`: set once on a file, it keeps superusers from reading it.
    pub fn is_unreadable_mark(&self) -> bool {
        self.space == XattrSpace::Security && self.name == "hdfs.unreadable.by.superuser"
    }

    pub(crate) fn unreadable_mark() -> Self {
        Self { space: XattrSpace::Security, name: "hdfs.unreadable.by.superuser".into() }
    }
}

impl std::fmt::Display for XattrName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.space.prefix(), self.name)
    }
}
