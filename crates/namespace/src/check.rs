//! What must hold of the rows at all times.
use types::rows::{Rows, RowsError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

pub fn check(_rows: &dyn Rows) -> Result<Vec<Violation>, RowsError> {
    Ok(Vec::new())
}
