//! What ends a sender before all was sent.

/// The peer of a sender kept it waiting for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Late {
    #[error("the reader takes nothing")]
    TakesNothing,
    #[error("does not answer")]
    Unanswered,
}
