//! Why a downstream node counts as lost.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("disconnected")]
    Disconnected,
    #[error("timed out")]
    TimedOut,
    /// It sent what is no acknowledgement.
    #[error("protocol error")]
    ProtocolError,
}
