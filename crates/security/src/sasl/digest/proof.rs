//! What proves that an end knows the password: RFC 2831, 2.1.2.1 and 2.1.3.

use super::protection::Qop;
use md5::{Digest, Md5};

/// All that goes into a proof.
pub(super) struct Facts<'a> {
    pub(super) user: &'a str,
    pub(super) realm: &'a str,
    pub(super) password: &'a [u8],
    pub(super) nonce: &'a str,
    pub(super) cnonce: &'a str,
    pub(super) authorization: Option<&'a str>,
    pub(super) uri: &'a str,
    pub(super) qop: Qop,
}

/// A nonce serves once, so its count is always this.
pub(super) const NONCE_COUNT: &str = "00000001";
/// In place of the hash of a message's body, which there is none of.
const NO_BODY: &[u8] = b":00000000000000000000000000000000";

/// H(A1): the secret of the session, of which the keys of the layer are made.
#[derive(Clone, Copy)]
pub(super) struct SessionKey([u8; 16]);

impl SessionKey {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let secret = hash(&[facts.user.as_bytes(), b":", facts.realm.as_bytes(), b":", facts.password]);
        let mut inner = Md5::new();
        for part in [&secret[..], b":", facts.nonce.as_bytes(), b":", facts.cnonce.as_bytes()] {
            inner.update(part);
        }
        if let Some(authorization) = facts.authorization {
            inner.update(b":");
            inner.update(authorization.as_bytes());
        }
        Self(inner.finalize().into())
    }

    /// A key of the layer, by RFC 2831's constant for it.
    pub(super) fn derive(self, constant: &[u8]) -> [u8; 16] {
        hash(&[&self.0, constant])
    }

    /// The client's `response`.
    pub(super) fn response(self, facts: &Facts<'_>) -> String {
        self.proof(facts, b"AUTHENTICATE:")
    }

    /// The server's `rspauth`.
    pub(super) fn rspauth(self, facts: &Facts<'_>) -> String {
        self.proof(facts, b":")
    }

    fn proof(self, facts: &Facts<'_>, method: &[u8]) -> String {
        let body = if facts.qop == Qop::Auth { &b""[..] } else { NO_BODY };
        let request = hexadecimal(&hash(&[method, facts.uri.as_bytes(), body]));
        let session = hexadecimal(&self.0);
        let parts = [&session, facts.nonce, NONCE_COUNT, facts.cnonce, facts.qop.name(), &request];
        hexadecimal(&hash(&[parts.join(":").as_bytes()]))
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2831, section 4.
    #[test]
    fn the_example_of_the_standard() {
        let facts = Facts {
            user: "chris",
            realm: "elwood.innosoft.com",
            password: b"secret",
            nonce: "OA6MG9tEQGm2hh",
            cnonce: "OA6MHXh6VqTrRk",
            authorization: None,
            uri: "imap/elwood.innosoft.com",
            qop: Qop::Auth,
        };
        let key = SessionKey::of(&facts);
        assert_eq!(key.response(&facts), "d388dad90d4bbd760a152321f2143af7");
        assert_eq!(key.rspauth(&facts), "ea40f60335c427b5527b84dbabcdfffd");
    }
}
