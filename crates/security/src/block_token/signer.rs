//! Who makes block tokens: the leading metadata server, once an open.
//!
//! Every token that a key signs expires with the key. So user, file and modes have the same bytes for as long as the
//! key signs, and their MAC can be remembered. What is remembered is found by the very bytes that are signed: it
//! cannot be the MAC of anything else.

use super::identifier::{Identifier, USER_LEN_MAX, put_home};
use super::modes::Modes;
use crate::keys::KeyRing;
use crate::secret::{Password, Purpose};
use std::collections::HashMap;
use types::{BlockId, ContainerId, FileId, Millis};

/// What a token is to allow: `user`, the `modes` on all blocks of `file`, or on one. What writes or replaces is for
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    pub user: &'a str,
    pub file: FileId,
    pub modes: Modes,
    pub block: Option<BlockId>,
}

/// Why nothing was signed. Two variants differ only if the caller acts differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error("a user's name of {len} bytes cannot be put into a block token, 1 to {USER_LEN_MAX} are allowed")]
    User { len: usize },
    #[error("a user's name with a control character cannot be put into a block token")]
    UserLetters,
    #[error("a block token that allows {modes} has to name the block")]
    BlockMissing { modes: Modes },
    #[error("the key that signs block tokens expired at {} ms: the leader has to roll it", expired.0)]
    KeyExpired { expired: Millis },
}

/// One signature, for all blocks of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedToken {
    signed: Vec<u8>,
    password: Password,
}

impl SignedToken {
    /// The bytes of `TokenProto.identifier` of a block that is at home in `home`.
    pub fn identifier(&self, home: Option<ContainerId>) -> Vec<u8> {
        let mut identifier = Vec::with_capacity(self.signed.len() + 12);
        identifier.extend_from_slice(&self.signed);
        if let Some(home) = home {
            put_home(&mut identifier, home);
        }
        identifier
    }

    /// The bytes of `TokenProto.password`.
    pub fn password(&self) -> &Password {
        &self.password
    }
}

impl std::fmt::Debug for SignedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SignedToken({:?})", Identifier::parse(&self.signed).map(|(identifier, _)| identifier))
    }
}

/// Makes tokens, and remembers what it signed of late.
#[derive(Debug)]
pub struct Signer {
    /// What was used since the last time this was full, and what was used before it.
    recent: HashMap<Box<[u8]>, Password>,
    former: HashMap<Box<[u8]>, Password>,
    remembered_count_max: usize,
}

impl Signer {
    /// Remembers some 200 bytes for each.
    pub fn new(remembered_count_max: usize) -> Self {
        Self { recent: HashMap::new(), former: HashMap::new(), remembered_count_max }
    }

    pub fn sign(&mut self, now: Millis, ring: &KeyRing, grant: Grant<'_>) -> Result<SignedToken, GrantError> {
        let len = grant.user.len();
        if !(1..=USER_LEN_MAX).contains(&len) {
            return Err(GrantError::User { len });
        }
        if grant.user.contains(char::is_control) {
            return Err(GrantError::UserLetters);
        }
        if grant.block.is_none() && grant.modes.changes() {
            return Err(GrantError::BlockMissing { modes: grant.modes });
        }
        let key = ring.current();
        if key.expires <= now {
            return Err(GrantError::KeyExpired { expired: key.expires });
        }
        let Grant { user, file, modes, block } = grant;
        let mut signed = Vec::new();
        Identifier { expires: key.expires, key: key.id, user, block, modes, file, home: None }.put_signed(&mut signed);
        if block.is_some() {
            // It is asked for once, and would push out what is asked for often.
            let password = key.password(Purpose::BlockToken, &signed);
            return Ok(SignedToken { signed, password });
        }
        let password = match self.recent.get(&signed[..]) {
            Some(password) => *password,
            None => {
                let known = self.former.remove(&signed[..]);
                let password = known.unwrap_or_else(|| key.password(Purpose::BlockToken, &signed));
                self.remember(&signed, password);
                password
            }
        };
        Ok(SignedToken { signed, password })
    }

    fn remember(&mut self, signed: &[u8], password: Password) {
        if self.recent.len() >= self.remembered_count_max / 2 {
            self.former = std::mem::take(&mut self.recent);
        }
        if self.remembered_count_max >= 2 {
            self.recent.insert(signed.into(), password);
        }
        self.check();
    }

    pub fn remembered_count(&self) -> usize {
        self.recent.len() + self.former.len()
    }

    /// Forgets all, as where a secret was replaced under the id it had.
    pub fn clear(&mut self) {
        self.recent.clear();
        self.former.clear();
    }

    pub fn check(&self) {
        assert!(self.remembered_count() <= self.remembered_count_max, "{} remembered", self.remembered_count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_token::modes::Mode;
    use crate::keys::{KeyId, Lifetimes};
    use crate::secret::{SECRET_LEN, Secret};
    use types::InodeId;

    fn ring() -> KeyRing {
        let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
        KeyRing::new(Millis(0), Lifetimes::BLOCK_TOKENS, KeyId(1), secrets)
    }

    fn grant(user: &str, file: u64) -> Grant<'_> {
        Grant { user, file: InodeId(file), modes: Modes::of(&[Mode::Read]), block: None }
    }

    #[test]
    fn a_token_is_the_same_while_its_key_signs() {
        let (mut signer, mut ring) = (Signer::new(100), ring());
        let first = signer.sign(Millis(0), &ring, grant("ada", 7)).unwrap();
        let again = signer.sign(Millis(1_000_000), &ring, grant("ada", 7)).unwrap();
        assert_eq!(first, again);
        assert_eq!(signer.remembered_count(), 1);
        let made = Grant { block: Some(BlockId(9)), ..grant("ada", 7) };
        assert_ne!(signer.sign(Millis(0), &ring, made).unwrap().password(), first.password());
        assert_eq!(signer.remembered_count(), 1, "tokens of one block are not remembered");
        ring.roll(ring.roll_at(), Secret::new([3; SECRET_LEN])).unwrap();
        let rolled = signer.sign(ring.rolled_at(), &ring, grant("ada", 7)).unwrap();
        assert_ne!(first, rolled);
    }

    /// Constant in size: neither the number of blocks nor anything else but the user's name counts.
    #[test]
    fn the_size_depends_on_the_user_alone() {
        let mut signer = Signer::new(0);
        let now = Millis(1_764_115_200_000);
        let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
        let ring = KeyRing::new(now, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets);
        let token = signer.sign(now, &ring, grant("ada", 16_386)).unwrap();
        assert_eq!(token.identifier(Some(ContainerId(7))).len(), 27);
        let most = signer.sign(now, &ring, grant("ada", u64::MAX)).unwrap();
        assert_eq!(most.identifier(Some(ContainerId(u64::MAX))).len(), 43);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_used_stays() {
        for limit in [0, 1, 2, 10] {
            let (mut signer, ring) = (Signer::new(limit), ring());
            let kept = signer.sign(Millis(0), &ring, grant("ada", 0)).unwrap();
            for file in 1..100 {
                signer.sign(Millis(0), &ring, grant("ada", file)).unwrap();
                assert_eq!(signer.sign(Millis(0), &ring, grant("ada", 0)).unwrap(), kept);
                signer.check();
            }
            signer.clear();
            assert_eq!(signer.sign(Millis(0), &ring, grant("ada", 0)).unwrap(), kept);
        }
    }

    #[test]
    fn what_cannot_be_signed_is_named() {
        let (mut signer, ring) = (Signer::new(10), ring());
        let sign = |signer: &mut Signer, now, user: &str| signer.sign(now, &ring, grant(user, 7)).unwrap_err();
        assert_eq!(sign(&mut signer, Millis(0), ""), GrantError::User { len: 0 });
        assert_eq!(sign(&mut signer, Millis(0), &"a".repeat(256)), GrantError::User { len: 256 });
        assert_eq!(sign(&mut signer, Millis(0), "a\u{7f}"), GrantError::UserLetters);
        for modes in [Mode::Write, Mode::Replace].map(|mode| Modes::of(&[Mode::Read, mode])) {
            let of_file = Grant { modes, ..grant("ada", 7) };
            assert_eq!(signer.sign(Millis(0), &ring, of_file), Err(GrantError::BlockMissing { modes }));
            assert!(signer.sign(Millis(0), &ring, Grant { block: Some(BlockId(9)), ..of_file }).is_ok());
        }
        let expired = ring.current().expires;
        assert_eq!(sign(&mut signer, expired, "ada"), GrantError::KeyExpired { expired });
    }
}
