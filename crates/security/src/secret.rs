//! A secret and the MACs made with it.
//!
//! Promise: neither is ever printed, and MACs are compared in constant time.

use ctutils::CtEq;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use types::encoding::{DecodeError, Encoded, Input};

/// Bytes of a secret: as many as SHA-256 has of state. Drawn by whoever has chance, never derived from a word.
pub const SECRET_LEN: usize = 32;
/// Bytes of an HMAC-SHA-256.
pub const PASSWORD_LEN: usize = 32;

/// Random bytes that MACs are made with.
#[derive(Clone)]
pub struct Secret {
    bytes: [u8; SECRET_LEN],
    /// With the key's two blocks hashed already, which halves the cost of a short message.
    keyed: Hmac<Sha256>,
}

/// What a MAC is for. It is part of what is signed, so that nothing signed for one purpose counts for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    BlockToken,
    DelegationToken,
    /// The secret of a connection under `dfs.encrypt.data.transfer`.
    DataEncryption,
}

impl Purpose {
    /// No label is the beginning of another.
    fn label(self) -> &'static [u8] {
        match self {
            Self::BlockToken => b"levada block token\0",
            Self::DelegationToken => b"levada delegation token\0",
            Self::DataEncryption => b"levada data encryption\0",
        }
    }
}

impl Secret {
    pub fn new(bytes: [u8; SECRET_LEN]) -> Self {
        Self { bytes, keyed: Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length") }
    }

    /// For the row that keeps it, and for the message that brings it to another server.
    pub fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.bytes
    }

    /// The MAC of `bytes`, which is what whoever presents them has to prove that it knows.
    pub fn password(&self, purpose: Purpose, bytes: &[u8]) -> Password {
        let mut mac = self.keyed.clone();
        mac.update(purpose.label());
        mac.update(bytes);
        Password(mac.finalize().into_bytes().into())
    }
}

/// For rows, log entries and messages between our own servers.
impl Encoded for Secret {
    fn encode(&self, out: &mut Vec<u8>) {
        self.bytes.encode(out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        <[u8; SECRET_LEN]>::decode(input).map(Self::new)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&other.bytes).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What proves that an identifier is ours: HDFS calls it the token's password, and SASL uses it as one.
#[derive(Clone, Copy)]
pub struct Password([u8; PASSWORD_LEN]);

impl Password {
    pub fn new(bytes: [u8; PASSWORD_LEN]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; PASSWORD_LEN] {
        &self.0
    }

    /// Whether `bytes` are this password. Takes as long wherever they differ.
    pub fn is(&self, bytes: &[u8]) -> bool {
        same(&self.0, bytes)
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Compares in a time that depends on the lengths alone.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 1, has no label before its message: so the label is checked by hand here.
    #[test]
    fn a_password_is_an_hmac_of_label_and_bytes() {
        let secret = Secret::new([7; SECRET_LEN]);
        let mut mac = Hmac::<Sha256>::new_from_slice(&[7; SECRET_LEN]).unwrap();
        mac.update(b"levada block token\0Hi There");
        let want: [u8; PASSWORD_LEN] = mac.finalize().into_bytes().into();
        assert!(secret.password(Purpose::BlockToken, b"Hi There").is(&want));
        assert!(!secret.password(Purpose::DelegationToken, b"Hi There").is(&want));
        assert!(!secret.password(Purpose::DataEncryption, b"Hi There").is(&want));
    }

    #[test]
    fn a_shorter_password_is_another() {
        let password = Secret::new([7; SECRET_LEN]).password(Purpose::BlockToken, b"x");
        assert!(!password.is(&password.bytes()[..31]));
        assert!(!password.is(b""));
        assert!(password.is(&password.bytes()[..]));
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new([0xab; SECRET_LEN]);
        let password = secret.password(Purpose::BlockToken, b"x");
        assert_eq!(format!("{secret:?} {password:?}"), "Secret Password");
    }
}
