//! What a client is told of a failure, and what the log is told.

use crate::delegation;
use hdfs::exception::{self, Exception};

/// All that a client hears of why its token does not count. Reasons are for the log: they would tell a forger what to
/// change. Stock clients act on the class alone.
const TOKEN_REFUSED: &str = "the token is not valid";

/// Why nobody is found by an identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The token does not count, for a reason that is not the client's business.
    Token { reason: String },
    /// What the client has to know, as that it should ask another server.
    Told(Exception),
}

impl From<delegation::Refusal> for ClaimError {
    fn from(refusal: delegation::Refusal) -> Self {
        Self::Token { reason: refusal.to_string() }
    }
}

/// An exchange that ended without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// For the client.
    pub told: Exception,
    /// For the log.
    pub reason: String,
    /// The token that the client said it has. Nothing of it was proven.
    pub identifier: Option<Vec<u8>>,
}

impl Refused {
    /// Of a token that is forged, has expired, or whose key is not known: one answer for all.
    pub(super) fn token(reason: String) -> Self {
        Self { told: Exception::unauthorized(exception::INVALID_TOKEN, TOKEN_REFUSED), reason, identifier: None }
    }

    pub(super) fn of_token(self, identifier: Vec<u8>) -> Self {
        Self { identifier: Some(identifier), ..self }
    }
}

impl From<Exception> for Refused {
    fn from(told: Exception) -> Self {
        Self { reason: told.message.clone(), told, identifier: None }
    }
}

impl From<ClaimError> for Refused {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Token { reason } => Self::token(reason),
            ClaimError::Told(told) => told.into(),
        }
    }
}
