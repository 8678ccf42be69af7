//! What a file may have too much of.

use std::fmt;

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Asked,
    Questions,
    Object,
    Objects,
    Pieces,
    Columns,
    Names,
    Record,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "bytes of metadata",
            Self::Questions => "reads of metadata",
            Self::Object => "bytes of an object",
            Self::Objects => "bytes of all objects and other work",
            Self::Pieces => "pieces",
            Self::Columns => "columns and tables",
            Self::Names => "bytes of names",
            Self::Record => "bytes of a record",
        })
    }
}
