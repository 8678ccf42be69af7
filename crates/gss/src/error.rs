//! What can go wrong, and what to do.

use crate::c::{LoadError, Status};
use crate::trouble::{During, Trouble};
use security::negotiation::NegotiationError;
use security::sasl::rpc::GssLayerError;

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The library refused.
    #[error("{doing}: {status}: {}", trouble.advice())]
    Kerberos { doing: String, trouble: Trouble, status: Status },
    #[error("{doing}: {reason}")]
    Exchange { doing: String, reason: Reason },
}

/// Why an exchange cannot go on, for which the library has no word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("a token of {len} bytes, at most {max} are taken")]
    Length { len: usize, max: usize },
    #[error(transparent)]
    Layer(#[from] GssLayerError),
    #[error(transparent)]
    Negotiation(#[from] NegotiationError),
    #[error("a token that is no login")]
    Token,
    #[error("the context was complete, and more came")]
    Surplus,
    #[error("the exchange is over")]
    Over,
    #[error("nothing was agreed on that seals messages")]
    Unsealed,
    #[error("the server did not prove itself")]
    NotMutual,
    #[error("the name of the peer is not UTF-8, or too long")]
    Name,
    #[error("a path or a name has a zero byte in it")]
    Nul,
    #[error("a peer that takes only {len} bytes at once")]
    TooSmall { len: u32 },
    #[error("a message came that is not encrypted, and privacy was agreed on")]
    NotEncrypted,
}

impl Error {
    pub(crate) fn exchange(doing: &str, reason: impl Into<Reason>) -> Self {
        Self::Exchange { doing: doing.to_owned(), reason: reason.into() }
    }

    /// What is wrong, if it is Kerberos that says so.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Kerberos { trouble, .. } => Some(*trouble),
            Self::Load(_) | Self::Exchange { .. } => None,
        }
    }

    /// What a peer may hear that has not proven anything: the kind, without names, paths and versions.
    pub fn told(&self) -> String {
        match self {
            Self::Load(_) => Trouble::Other.text().to_owned(),
            Self::Kerberos { trouble, .. } => trouble.text().to_owned(),
            Self::Exchange { reason, .. } => reason.to_string(),
        }
    }
}

/// For `map_err`: what was being done when the library refused.
pub(crate) fn failed(during: During, doing: &str) -> impl FnOnce(Status) -> Error {
    move |status| Error::Kerberos { doing: doing.to_owned(), trouble: Trouble::of(during, &status), status }
}
