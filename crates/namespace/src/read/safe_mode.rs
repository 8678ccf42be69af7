//! Is the namespace to stay as it is?

use crate::safe_mode::{self, SafeMode};
use types::rows::{Rows, RowsError};

/// `None`: safe mode is off.
pub fn safe_mode(rows: &dyn Rows) -> Result<Option<SafeMode>, RowsError> {
    safe_mode::get(rows)
}
