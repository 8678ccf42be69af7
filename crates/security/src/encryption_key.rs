//! The secret that a client of an encrypting cluster (`dfs.encrypt.data.transfer`) proves to a datanode to know.
//!
//! The metadata server draws a nonce and signs it; the client gets nonce and MAC over its RPC connection, and tells the
//! datanode which key and which nonce it has, as the user's name of the handshake:
//!
//! ```text
//! "<key id> <block pool> <nonce as base64>"
//! ```
//!
//! Whom it belongs to is not in it: operations still need block tokens.

use crate::keys::{Key, KeyId, KeySet};
use crate::secret::{Password, Purpose};
use base64ct::{Base64, Encoding};
use types::Millis;

/// All that a client hears of why its secret does not count.
pub const REFUSED: &str = "the encryption key is not valid";

/// Bytes of a nonce of ours, as of Hadoop's.
pub const NONCE_LEN: usize = 8;
/// Longest nonce that is looked at.
const NONCE_LEN_MAX: usize = 64;
/// Longest name of such a user.
const USER_LEN_MAX: usize = 512;

/// Why a user's name names no such secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionKeyError {
    #[error("the user's name of the handshake is not a key id, a block pool and a nonce")]
    Malformed,
    #[error("the encryption key is of block pool {}", types::excerpt(pool))]
    Pool { pool: String },
    /// The client asks for another, and tries again.
    #[error("Can't re-compute encryption key for nonce, since the required block key (keyID={}) doesn't exist", key.0)]
    UnknownKey { key: KeyId },
}

/// What the client is given, with the nonce and the key's id.
pub fn sign(key: &Key, nonce: &[u8; NONCE_LEN]) -> Password {
    key.password(Purpose::DataEncryption, nonce)
}

/// How a client names the secret it has.
pub fn user_name(key: KeyId, pool: &str, nonce: &[u8]) -> String {
    format!("{} {pool} {}", key.0, Base64::encode_string(nonce))
}

/// The same for a server of HDFS: its keys may have numbers below 0, which the message has no sign for.
pub fn hdfs_user_name(key_id: u32, pool: &str, nonce: &[u8]) -> String {
    format!("{} {pool} {}", key_id.cast_signed(), Base64::encode_string(nonce))
}

/// The secret that a client named.
pub fn authenticate(now: Millis, keys: &KeySet, pool: &str, user: &str) -> Result<Password, EncryptionKeyError> {
    let mut words = user.split(' ');
    let (id, have, nonce) = match (words.next(), words.next(), words.next(), words.next()) {
        (Some(id), Some(have), Some(nonce), None) if user.len() <= USER_LEN_MAX => (id, have, nonce),
        _ => return Err(EncryptionKeyError::Malformed),
    };
    let id = id.parse().map(KeyId).map_err(|_| EncryptionKeyError::Malformed)?;
    let nonce = Base64::decode_vec(nonce).ok().filter(|nonce| nonce.len() <= NONCE_LEN_MAX);
    let nonce = nonce.ok_or(EncryptionKeyError::Malformed)?;
    if have != pool {
        return Err(EncryptionKeyError::Pool { pool: have.to_owned() });
    }
    let key = keys.find(now, id).ok_or(EncryptionKeyError::UnknownKey { key: id })?;
    Ok(key.password(Purpose::DataEncryption, &nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{SECRET_LEN, Secret};

    fn keys() -> KeySet {
        let secret = Secret::new([7; SECRET_LEN]);
        KeySet::new(1, vec![Key { id: KeyId(3), expires: Millis(9), secret }]).unwrap()
    }

    #[test]
    fn a_named_secret_is_found() {
        let keys = keys();
        let signed = sign(keys.find(Millis(8), KeyId(3)).unwrap(), b"12345678");
        let user = user_name(KeyId(3), "BP-1", b"12345678");
        assert_eq!(user, "3 BP-1 MTIzNDU2Nzg=");
        assert_eq!(authenticate(Millis(8), &keys, "BP-1", &user), Ok(signed));
        let expired = authenticate(Millis(9), &keys, "BP-1", &user);
        assert_eq!(expired, Err(EncryptionKeyError::UnknownKey { key: KeyId(3) }));
    }

    #[test]
    fn all_else_is_refused() {
        let refused = |user: &str| authenticate(Millis(8), &keys(), "BP-1", user).unwrap_err();
        assert_eq!(refused("4 BP-1 MTIzNDU2Nzg="), EncryptionKeyError::UnknownKey { key: KeyId(4) });
        assert_eq!(refused("3 BP-2 MTIzNDU2Nzg="), EncryptionKeyError::Pool { pool: "BP-2".into() });
        let long = format!("3 BP-1 {}", "A".repeat(1000));
        for user in ["", "3", "3 BP-1", "3 BP-1 MTI", "3 BP-1 MTIzNDU2Nzg= x", "-3 BP-1 MTIzNDU2Nzg=", &long] {
            assert_eq!(refused(user), EncryptionKeyError::Malformed, "{user}");
        }
    }
}
