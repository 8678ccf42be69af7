//! Why a downstream node counts as lost.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Disconnected,
    TimedOut,
    /// It sent what is no acknowledgement.
    ProtocolError,
    /// It sent more than acknowledgements of all packets in flight take.
    TooManyBytes,
    /// This node stops, and leaves it.
    Stopping,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disconnected => "disconnected",
            Self::TimedOut => "timed out",
            Self::ProtocolError => "protocol error",
            Self::TooManyBytes => "protocol error: too many bytes",
            Self::Stopping => "this node is stopping",
        })
    }
}
