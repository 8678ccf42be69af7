//! Whose handshake it is: the user's name is a block token, or names an encryption key.

use super::message::HandshakeError;
use crate::block_token::{self, ProvenToken, Refusal};
use crate::encryption_key::{self, EncryptionKeyError};
use crate::keys::KeySet;
use crate::sasl::digest::DigestError;
use crate::secret::Password;
use base64ct::{Base64, Encoding};
use types::Millis;

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Whoever holds this block token.
    Token(ProvenToken),
    /// Somebody whom the metadata server gave a key of the cluster. Operations still bring their tokens.
    EncryptionKey,
}

/// Whom a client says it is, and the password that it still has to prove to know.
#[derive(Clone, Debug)]
pub struct Claim(ClaimKind);

#[derive(Clone, Debug)]
enum ClaimKind {
    Token(block_token::Claim),
    EncryptionKey(Password),
    /// Of Hadoop, whose passwords are shorter.
    #[cfg(test)]
    Recorded(Vec<u8>),
}

impl Claim {
    /// As DIGEST-MD5 has it.
    pub(super) fn password(&self) -> String {
        let password = match &self.0 {
            ClaimKind::Token(claim) => claim.password(),
            ClaimKind::EncryptionKey(password) => password,
            #[cfg(test)]
            ClaimKind::Recorded(password) => return Base64::encode_string(password),
        };
        Base64::encode_string(password.bytes())
    }

    /// The client does not know the password. It hears what it would if the key were unknown.
    pub(super) fn forged(&self) -> HandshakeError {
        let text = DigestError::Proof.to_string();
        match &self.0 {
            ClaimKind::Token(_) => HandshakeError::Token { text },
            ClaimKind::EncryptionKey(_) => HandshakeError::EncryptionKey { text },
            #[cfg(test)]
            ClaimKind::Recorded(_) => HandshakeError::EncryptionKey { text },
        }
    }

    /// Once the client has proven that it knows the password.
    pub(super) fn proven(self) -> Peer {
        match self.0 {
            ClaimKind::Token(claim) => Peer::Token(claim.proven()),
            ClaimKind::EncryptionKey(_) => Peer::EncryptionKey,
            #[cfg(test)]
            ClaimKind::Recorded(_) => Peer::EncryptionKey,
        }
    }
}

#[cfg(test)]
impl Claim {
    pub(super) fn recorded(password: &[u8]) -> Self {
        Self(ClaimKind::Recorded(password.to_vec()))
    }
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
    /// Whom `user` says it is.
    pub fn claim(&self, user: &str) -> Result<Claim, SecretRefusal> {
        Ok(Claim(if user.contains(' ') {
            ClaimKind::EncryptionKey(encryption_key::authenticate(self.now, self.keys, self.pool, user)?)
        } else {
            let identifier = Base64::decode_vec(user).map_err(|_| SecretRefusal::Malformed)?;
            ClaimKind::Token(block_token::authenticate(self.now, self.keys, &identifier)?)
        }))
    }
}
