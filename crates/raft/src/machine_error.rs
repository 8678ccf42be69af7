//! Why a machine cannot go on.

/// The state could not be changed or kept. The node stops: going on would leave a hole.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

impl MachineError {
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<::types::rows::RowsError> for MachineError {
    fn from(error: ::types::rows::RowsError) -> Self {
        Self::new(error)
    }
}
