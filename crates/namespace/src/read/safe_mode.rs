//! Is the namespace to stay as it is?

use crate::error::NsError;
use crate::safe_mode::{self, SafeMode};
use types::rows::{Rows, RowsError};

/// `None`: safe mode is off.
pub fn safe_mode(rows: &dyn Rows) -> Result<Option<SafeMode>, RowsError> {
    safe_mode::get(rows)
}

/// The refusal of what would lead to a change, before anything is done for it. `cannot` is the beginning of HDFS's
/// message.
pub fn changeable(rows: &dyn Rows, cannot: impl FnOnce() -> String) -> crate::error::Answer<()> {
    Ok(match safe_mode::get(rows)? {
        Some(_) => Err(NsError::SafeMode(cannot())),
        None => Ok(()),
    })
}
