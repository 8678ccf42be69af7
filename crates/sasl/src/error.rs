//! Why there is no protected connection.

use security::sasl::transfer::HandshakeError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the handshake before data transfer: {0}")]
    Handshake(#[from] HandshakeError),
    #[error("the peer closed the connection within the handshake")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether a new block token, or a new encryption key, may do better.
    pub fn is_of_secret(&self) -> bool {
        matches!(self, Self::Handshake(HandshakeError::Token { .. } | HandshakeError::EncryptionKey { .. }))
    }
}

/// As [`Error::is_of_secret`], of what became an error of I/O.
pub fn is_of_secret(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).is_some_and(Error::is_of_secret)
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            other => io::Error::new(io::ErrorKind::PermissionDenied, other),
        }
    }
}

/// Nothing is to be sent or received any more, as what went before was lost.
pub(crate) fn ended() -> std::io::Error {
    std::io::ErrorKind::ConnectionAborted.into()
}
