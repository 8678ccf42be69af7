//! The messages of a handshake, and how it fails.

use crate::sasl::digest::{DigestError, LayerError};
use crate::{block_token, encryption_key};
use hdfs::proto::DataTransferEncryptorMessageProto as Message;
use hdfs::proto::data_transfer_encryptor_message_proto::DataTransferEncryptorStatus as Status;
use wire::{WireError, delimited};

/// How a client begins who wants a handshake. An operation begins with its version, which is far smaller.
pub const MAGIC: [u8; 4] = 0xdead_beef_u32.to_be_bytes();

/// Longest message taken: a response of 4096 bytes, the ciphers of a client, an error's text.
pub(super) const MESSAGE_LEN_MAX: usize = 8192;
/// Letters of a text that others are told.
const TEXT_LEN_MAX: usize = 1000;

/// Why there is no channel. Two variants differ only if the caller acts differently, or if the peer is told otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("the connection begins neither with an operation nor with a handshake")]
    Magic,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error("the keys of the cipher cannot be read: {0}")]
    Keys(#[from] LayerError),
    #[error("the server chose none of the offered ciphers, or sent no keys for it")]
    Cipher,
    #[error("a message of the handshake lacks its {what}")]
    Missing { what: &'static str },
    /// The block token does not count: the client fetches another and tries again. The reason is for the log alone.
    #[error("{text}")]
    Token { text: String },
    /// The encryption key does not count: the client fetches another and tries again. The reason is for the log alone.
    #[error("{text}")]
    EncryptionKey { text: String },
    #[error("the handshake is over")]
    Over,
    /// The peer gave up for whatever reason.
    #[error("the peer refused the handshake: {text}")]
    Refused { text: String },
}

impl HandshakeError {
    /// What the peer is told before the connection is closed.
    pub fn reply(&self) -> Vec<u8> {
        let status = match self {
            Self::EncryptionKey { .. } => Status::EncryptorErrorUnknownKey,
            _ => Status::EncryptorError,
        };
        let mut text = match self {
            Self::Token { .. } => block_token::REFUSED.to_owned(),
            Self::EncryptionKey { .. } => encryption_key::REFUSED.to_owned(),
            _ => self.to_string(),
        };
        text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
        let is_of_token = matches!(self, Self::Token { .. });
        let message = Message {
            status: status.into(),
            message: Some(text),
            access_token_error: is_of_token.then_some(true),
            ..Message::default()
        };
        let mut out = Vec::new();
        delimited::put(&message, &mut out);
        out
    }

    /// What a message says that is not of success.
    fn of(message: &Message) -> Option<Self> {
        let status = Status::try_from(message.status);
        if status == Ok(Status::EncryptorSuccess) {
            return None;
        }
        let text = types::excerpt(message.message.as_deref().unwrap_or_default());
        Some(match status {
            Ok(Status::EncryptorErrorUnknownKey) => Self::EncryptionKey { text },
            _ if message.access_token_error == Some(true) => Self::Token { text },
            _ => Self::Refused { text },
        })
    }
}

pub(super) fn success(payload: Vec<u8>) -> Message {
    Message { status: Status::EncryptorSuccess.into(), payload: Some(payload.into()), ..Message::default() }
}

/// The first message in `bytes`, and how many of them it takes. `None`: more bytes must come.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Message, usize)>, HandshakeError> {
    let Some((message, len)) = delimited::split(bytes, "a handshake", MESSAGE_LEN_MAX)? else { return Ok(None) };
    let message: Message = delimited::decode(message, "a handshake")?;
    match HandshakeError::of(&message) {
        Some(error) => Err(error),
        None => Ok(Some((message, len))),
    }
}

pub(super) fn payload(message: &Message) -> Result<&[u8], HandshakeError> {
    message.payload.as_deref().ok_or(HandshakeError::Missing { what: "payload" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let understood = |error: HandshakeError| read(&error.reply()).unwrap_err();
        let token = HandshakeError::Token { text: "expired".into() };
        assert_eq!(understood(token), HandshakeError::Token { text: "\"the block token is not valid\"".into() });
        let key = HandshakeError::EncryptionKey { text: "key 3".into() };
        assert_eq!(
            understood(key),
            HandshakeError::EncryptionKey { text: "\"the encryption key is not valid\"".into() }
        );
        assert!(matches!(understood(DigestError::Proof.into()), HandshakeError::Refused { .. }));
        let long = HandshakeError::Refused { text: "ä".repeat(5000) };
        assert!(long.reply().len() < 1100);
    }
}
