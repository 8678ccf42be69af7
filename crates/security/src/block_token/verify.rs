//! What a datanode asks of a block token before it touches a block.

use super::identifier::{Identifier, IdentifierError};
use super::modes::{Mode, Modes};
use crate::keys::{KeyId, KeySet};
use crate::secret::{Password, Purpose};
use std::fmt;
use types::{BlockId, FileId, Millis};

/// Why a block token does not admit an operation. A client gets the status on which it asks for a new token, whichever
/// it is; what it says is for logs, counters and tests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Identifier(#[from] IdentifierError),
    #[error("the block token is signed with {key}, which this server does not know")]
    UnknownKey { key: KeyId },
    #[error("the block token has a password that is not its own")]
    Forged,
    #[error("the block token expired at {} ms, now it is {} ms", expired.0, now.0)]
    Expired { expired: Millis, now: Millis },
    #[error("the block token is of user {}, the caller is {}", types::excerpt(have), types::excerpt(want))]
    User { have: String, want: String },
    #[error("the block token is for {have}, the block is of {want}")]
    File { have: FileId, want: FileId },
    #[error("the block token is for {}, the operation is on {want}", named(*have))]
    Block { have: Option<BlockId>, want: BlockId },
    #[error("the block token allows {have}, the operation needs {want}")]
    Mode { have: Modes, want: Mode },
}

/// The block of a token, or those of a file.
fn named(block: Option<BlockId>) -> String {
    block.map_or("blocks there are".to_owned(), |block| block.to_string())
}

/// What an operation needs of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission<'a> {
    pub now: Millis,
    /// Who calls, if the connection tells. A block token that is the only proof of who calls names the user itself.
    pub user: Option<&'a str>,
    /// Whose the replica is, as its record says; for a new replica, whose the token says it is to be.
    pub file: FileId,
    pub block: BlockId,
    /// Whether the node is to make a replica of a block that it has none of: then the token must name the block, as
    /// nothing else here tells whose it is.
    pub makes: bool,
    pub mode: Mode,
}

impl Admission<'_> {
    /// Whether `identifier` and `password`, as a client sent them, admit the operation.
    pub fn check<'t>(&self, keys: &KeySet, identifier: &'t [u8], password: &[u8]) -> Result<Proven<'t>, Refusal> {
        let (token, want) = claimed(self.now, keys, identifier)?;
        if !want.is(password) {
            return Err(Refusal::Forged);
        }
        let proven = Proven { token, bytes: identifier };
        self.allows(&proven)?;
        Ok(proven)
    }

    /// Whether a token admits the operation whose password was compared before: in a handshake, or by
    /// [`Admission::check`] for the first operation of a connection.
    pub fn allows(&self, proven: &Proven<'_>) -> Result<(), Refusal> {
        let token = &proven.token;
        if token.expires <= self.now {
            return Err(Refusal::Expired { expired: token.expires, now: self.now });
        }
        if let Some(user) = self.user
            && user != token.user
        {
            return Err(Refusal::User { have: token.user.to_owned(), want: user.to_owned() });
        }
        if token.file != self.file {
            return Err(Refusal::File { have: token.file, want: self.file });
        }
        // A token of one block is of no other.
        if token.block.map_or(self.makes, |block| block != self.block) {
            return Err(Refusal::Block { have: token.block, want: self.block });
        }
        if !token.modes.allows(self.mode) {
            return Err(Refusal::Mode { have: token.modes, want: self.mode });
        }
        Ok(())
    }
}

/// A token whose password was compared. Only this module makes one, so that nobody can take parsed bytes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven<'t> {
    token: Identifier<'t>,
    bytes: &'t [u8],
}

impl<'t> Proven<'t> {
    pub fn identifier(&self) -> &Identifier<'t> {
        &self.token
    }

    /// For a connection, whose handshake or first operation brought the token.
    pub fn to_owned(&self) -> ProvenToken {
        ProvenToken { bytes: self.bytes.to_vec() }
    }
}

/// A [`Proven`] that outlives the bytes in which it came.
#[derive(Clone, PartialEq, Eq)]
pub struct ProvenToken {
    bytes: Vec<u8>,
}

impl ProvenToken {
    pub fn proven(&self) -> Proven<'_> {
        let (token, _) = Identifier::parse(&self.bytes).expect("it was parsed before");
        Proven { token, bytes: &self.bytes }
    }
}

impl fmt::Debug for ProvenToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProvenToken({:?})", self.proven().token)
    }
}

/// A token that a client of a SASL handshake says it has, and the password that it still has to prove to know.
#[derive(Clone, Debug)]
pub struct Claim {
    bytes: Vec<u8>,
    password: Password,
}

impl Claim {
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// Only for SASL, once the client has proven that it knows the password.
    pub(crate) fn proven(self) -> ProvenToken {
        ProvenToken { bytes: self.bytes }
    }
}

/// Whom a SASL handshake is with, and the password that the client proves to know. An expired token gets none: its
/// operations would all be refused.
pub fn authenticate(now: Millis, keys: &KeySet, identifier: &[u8]) -> Result<Claim, Refusal> {
    let (token, password) = claimed(now, keys, identifier)?;
    if token.expires <= now {
        return Err(Refusal::Expired { expired: token.expires, now });
    }
    Ok(Claim { bytes: identifier.to_vec(), password })
}

fn claimed<'t>(now: Millis, keys: &KeySet, identifier: &'t [u8]) -> Result<(Identifier<'t>, Password), Refusal> {
    let (token, signed_len) = Identifier::parse(identifier)?;
    let key = keys.find(now, token.key).ok_or(Refusal::UnknownKey { key: token.key })?;
    Ok((token, key.password(Purpose::BlockToken, &identifier[..signed_len])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_token::signer::{Grant, Signer};
    use crate::keys::{KeyRing, Lifetimes};
    use crate::secret::{SECRET_LEN, Secret};
    use proptest::prelude::*;
    use types::{ContainerId, InodeId};

    const BLOCK: BlockId = BlockId(3 << 20 | 5);

    fn ring(byte: u8) -> KeyRing {
        let secrets = [byte, 99].map(|byte| Secret::new([byte; SECRET_LEN]));
        KeyRing::new(Millis(0), Lifetimes::BLOCK_TOKENS, KeyId(1), secrets)
    }

    /// A token for ada to read and write a block of file 7, as a client has it.
    fn token() -> (Vec<u8>, Vec<u8>) {
        let modes = Modes::of(&[Mode::Read, Mode::Write]);
        let grant = Grant { user: "ada", file: InodeId(7), modes, block: Some(BLOCK) };
        let token = Signer::new(0).sign(Millis(0), &ring(1), grant).unwrap();
        (token.identifier(Some(ContainerId(3))), token.password().bytes().to_vec())
    }

    fn admission() -> Admission<'static> {
        Admission { now: Millis(5), user: Some("ada"), file: InodeId(7), block: BLOCK, makes: false, mode: Mode::Read }
    }

    fn refused(admission: Admission<'_>) -> Refusal {
        let (identifier, password) = token();
        admission.check(ring(1).keys(), &identifier, &password).unwrap_err()
    }

    #[test]
    fn a_token_admits_what_it_was_made_for() {
        let (identifier, password) = token();
        let keys = ring(1).keys().clone();
        let proven = admission().check(&keys, &identifier, &password).unwrap();
        assert_eq!((proven.identifier().user, proven.identifier().home), ("ada", Some(ContainerId(3))));
        let kept = proven.to_owned();
        assert_eq!(kept.proven(), proven);
        let late = Admission { now: proven.identifier().expires, ..admission() };
        assert!(matches!(late.allows(&kept.proven()), Err(Refusal::Expired { .. })), "also on a connection that lasts");
        assert!(
            Admission { user: None, mode: Mode::Write, ..admission() }.check(&keys, &identifier, &password).is_ok()
        );
        let claim = authenticate(Millis(5), &keys, &identifier).unwrap();
        assert!(claim.password().is(&password), "a handshake proves the same password");
        assert_eq!(claim.proven(), kept);
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let expired = ring(1).current().expires;
        let late = Admission { now: expired, ..admission() };
        assert_eq!(refused(late), Refusal::UnknownKey { key: KeyId(1) }, "it expires with its key");
        let (identifier, _) = token();
        let claimed = authenticate(expired, ring(1).keys(), &identifier).unwrap_err();
        assert_eq!(claimed, Refusal::UnknownKey { key: KeyId(1) });
        let eve = Admission { user: Some("eve"), ..admission() };
        assert_eq!(refused(eve), Refusal::User { have: "ada".into(), want: "eve".into() });
        let other = Admission { file: InodeId(8), ..admission() };
        assert_eq!(refused(other), Refusal::File { have: InodeId(7), want: InodeId(8) });
        let copy = Admission { mode: Mode::Copy, ..admission() };
        let modes = Modes::of(&[Mode::Read, Mode::Write]);
        assert_eq!(refused(copy), Refusal::Mode { have: modes, want: Mode::Copy });
    }

    /// Whoever may write a file of his own must not make replicas of other files' blocks, under his file's name.
    #[test]
    fn a_replica_is_made_only_of_the_block_that_the_token_names() {
        let with = |block: Option<BlockId>, asked: Admission<'_>| {
            // By hand, as a `Signer` makes no such token of a whole file.
            let (ring, modes, mut signed) = (ring(1), Modes::of(&[Mode::Write]), Vec::new());
            let (expires, key) = (ring.current().expires, ring.current().id);
            let token = Identifier { expires, key, user: "ada", block, modes, file: InodeId(7), home: None };
            token.put_signed(&mut signed);
            let password = ring.current().password(Purpose::BlockToken, &signed);
            asked.check(ring.keys(), &signed, password.bytes()).map(|_| ())
        };
        let write = Admission { mode: Mode::Write, ..admission() };
        let makes = Admission { makes: true, ..write };
        assert_eq!(with(Some(BLOCK), makes), Ok(()));
        assert_eq!(with(Some(BLOCK), write), Ok(()), "and goes on with what was made");
        assert_eq!(with(None, write), Ok(()));
        assert_eq!(with(None, makes), Err(Refusal::Block { have: None, want: BLOCK }));
        let other = Some(BlockId(9));
        let refused = with(other, write).unwrap_err();
        assert_eq!(refused, Refusal::Block { have: other, want: BLOCK });
        assert_eq!(with(other, makes), Err(refused));
    }

    #[test]
    fn foreign_keys_and_passwords_are_refused() {
        let (identifier, password) = token();
        let check = |keys: &KeySet, identifier: &[u8], password: &[u8]| {
            admission().check(keys, identifier, password).map(|_| ()).unwrap_err()
        };
        let unknown = Refusal::UnknownKey { key: KeyId(1) };
        assert_eq!(check(&KeySet::default(), &identifier, &password), unknown);
        assert_eq!(check(ring(2).keys(), &identifier, &password), Refusal::Forged, "another store's");
        assert_eq!(check(ring(1).keys(), &identifier, b""), Refusal::Forged);
        assert_eq!(check(ring(1).keys(), b"", b""), IdentifierError::Absent.into());
        let unsigned = wire::token::BlockScope { file: InodeId(7), home: ContainerId(3) }.encode();
        assert_eq!(check(ring(1).keys(), &unsigned, &password), IdentifierError::Foreign.into());
        // The same bytes, signed for another purpose.
        let (_, signed_len) = Identifier::parse(&identifier).unwrap();
        let other = ring(1).current().password(Purpose::DataEncryption, &identifier[..signed_len]);
        assert_eq!(check(ring(1).keys(), &identifier, other.bytes()), Refusal::Forged);
    }

    #[test]
    fn tokens_live_through_a_roll_and_not_through_a_revocation() {
        let (identifier, password) = token();
        let mut ring = ring(1);
        let check = |ring: &KeyRing| admission().check(ring.keys(), &identifier, &password).map(|_| ());
        ring.roll(Millis(4), Secret::new([3; SECRET_LEN])).unwrap();
        assert_eq!(check(&ring), Ok(()));
        ring.revoke(KeyId(1));
        assert_eq!(check(&ring), Err(Refusal::UnknownKey { key: KeyId(1) }));
    }

    proptest! {
        /// Whoever changes a bit of what is signed, or of the password, is refused; the hint alone may change.
        #[test]
        fn no_change_goes_unnoticed(bit in 0usize..1000) {
            let (identifier, password) = token();
            let (signed_len, hint_len) = (identifier.len() - 3, 3);
            let mut bytes = [&identifier[..signed_len], &password].concat();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (signed, password) = bytes.split_at(signed_len);
            let changed = [signed, &identifier[identifier.len() - hint_len..]].concat();
            prop_assert!(admission().check(ring(1).keys(), &changed, password).is_err());
        }
    }
}
