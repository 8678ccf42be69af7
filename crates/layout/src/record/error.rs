//! Why a record cannot be read.

/// Ask the file again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of a layout cannot be read: {0}")]
pub struct RecordError(pub(super) &'static str);

pub(super) type Result<T> = std::result::Result<T, RecordError>;
