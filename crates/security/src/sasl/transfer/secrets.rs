//! Whose handshake it is: the user's name is a block token, or names an encryption key.

use crate::block_token::{self, Refusal};
use crate::encryption_key::{self, EncryptionKeyError};
use crate::keys::KeySet;
use base64ct::{Base64, Encoding};
use types::Millis;

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Whoever holds this block token: the bytes of its identifier.
    Token { identifier: Vec<u8> },
    /// Somebody whom the metadata server gave a key of the cluster. Operations still bring their tokens.
    EncryptionKey,
}

/// Why a user's name is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefusal {
    #[error(transparent)]
    Token(#[from] Refusal),
    #[error(transparent)]
    EncryptionKey(#[from] EncryptionKeyError),
    #[error("the user's name of the handshake is no block token")]
    Malformed,
}

/// What a datanode knows.
#[derive(Clone, Copy, Debug)]
pub struct Secrets<'a> {
    pub now: Millis,
    pub keys: &'a KeySet,
    pub pool: &'a str,
}

impl Secrets<'_> {
    /// Whom `user` is, and the password as DIGEST-MD5 has it.
    pub fn password(&self, user: &str) -> Result<(Peer, String), SecretRefusal> {
        let (peer, password) = if user.contains(' ') {
            (Peer::EncryptionKey, encryption_key::authenticate(self.keys, self.pool, user)?)
        } else {
            let identifier = Base64::decode_vec(user).map_err(|_| SecretRefusal::Malformed)?;
            let (_, password) = block_token::authenticate(self.now, self.keys, &identifier)?;
            (Peer::Token { identifier }, password)
        };
        Ok((peer, Base64::encode_string(password.bytes())))
    }
}
