//! The token by which a datanode joins, as people copy it from one machine to another.
//!
//! ```text
//! levada-join-1.BASE64          base64 of RFC 4648 §5 for URLs, without padding
//!                0                          32             36          52        56
//!                ┌──────────────────────────┬──────────────┬───────────┬─────────┐
//!                │ SHA-256 of the           │ number       │ secret    │ check   │
//!                │ authority's certificate  │ u32 BE       │ 16 B      │ 4 B     │
//!                └──────────────────────────┴──────────────┴───────────┴─────────┘
//! ```
//!
//! The check is the beginning of the SHA-256 of what stands before it: a token that was cut or mistyped is told from
//! one that does not count. The first field is how the newcomer knows the store, before it shows the rest to anybody.

use base64ct::{Base64UrlUnpadded, Encoding};
use ctutils::CtEq;
use sha2::{Digest, Sha256};
use std::fmt;

const PREFIX: &str = "levada-join-1.";
const AUTHORITY_LEN: usize = 32;
const NUMBER_LEN: usize = 4;
pub(crate) const SECRET_LEN: usize = 16;
const CHECK_LEN: usize = 4;
const LEN: usize = AUTHORITY_LEN + NUMBER_LEN + SECRET_LEN + CHECK_LEN;
/// So that a hash of a secret is of nothing else.
const LABEL: &[u8] = b"levada join token\0";

/// See the module. It is printed by [`JoinToken::text`] alone.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// SHA-256 of the certificate of the authority that the store's servers have.
    pub authority: [u8; AUTHORITY_LEN],
    /// Of the invitation.
    pub number: u32,
    pub secret: [u8; SECRET_LEN],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it does not begin with {PREFIX}")]
    Prefix,
    #[error("it is not whole, or was mistyped: copy it once more")]
    Damaged,
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({:08x})", self.number)
    }
}

impl JoinToken {
    /// What is kept of a secret.
    pub fn hash(secret: &[u8; SECRET_LEN]) -> [u8; 32] {
        Sha256::new().chain_update(LABEL).chain_update(secret).finalize().into()
    }

    pub fn text(&self) -> String {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(&self.authority);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&check(&bytes));
        format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes))
    }

    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        let mut bytes = [0; LEN];
        let len = Base64UrlUnpadded::decode(encoded, &mut bytes).map_err(|_| TokenError::Damaged)?.len();
        let (rest, found) = bytes.split_last_chunk::<CHECK_LEN>().expect("LEN is more");
        if len != LEN || check(rest) != *found {
            return Err(TokenError::Damaged);
        }
        let (authority, rest) = rest.split_first_chunk().expect("as LEN says");
        let (number, rest) = rest.split_first_chunk().expect("as LEN says");
        let secret = rest.try_into().expect("as LEN says");
        Ok(Self { authority: *authority, number: u32::from_be_bytes(*number), secret })
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    *Sha256::digest(bytes).first_chunk().expect("a digest is longer")
}

/// In constant time.
pub(crate) fn is_hash_of(hash: &[u8; 32], secret: &[u8; SECRET_LEN]) -> bool {
    JoinToken::hash(secret)[..].ct_eq(&hash[..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> JoinToken {
        JoinToken { authority: [7; AUTHORITY_LEN], number: 0x0102_0304, secret: [9; SECRET_LEN] }
    }

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let text = example().text();
        assert_eq!(JoinToken::parse(&text), Ok(example()));
        assert_eq!(text, "levada-join-1.BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcBAgMECQkJCQkJCQkJCQkJCQkJCWFWY18",);
        assert!(!format!("{:?}", example()).contains("9, 9"), "the secret is not printed");
    }

    #[test]
    fn a_token_that_was_damaged_on_the_way_is_told() {
        let text = example().text();
        assert_eq!(
            JoinToken::parse("SWMTKN-1-3pu6hszjas19xyp7ghgosyx9k8atbfcr8p2is99znpy26u2lkl"),
            Err(TokenError::Prefix)
        );
        for damaged in [&text[..text.len() - 1], &text.replace("BwcB", "BwcC"), &format!("{text}A"), PREFIX] {
            assert_eq!(JoinToken::parse(damaged), Err(TokenError::Damaged), "{damaged}");
        }
    }

    proptest! {
        #[test]
        fn no_text_has_two_meanings(text in "(levada-join-1.)?[A-Za-z0-9_=-]{0,90}") {
            if let Ok(token) = JoinToken::parse(&text) {
                prop_assert_eq!(token.text(), text);
            }
        }
    }
}
