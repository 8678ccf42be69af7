//! Whether operations on blocks need tokens on this node, and whether a token admits one.
//!
//! ```text
//! leader ── rules, keys ──▶ Tokens ── a snapshot ──▶ TokenRules::admit(what is asked, identifier, password)
//!  (registration, heartbeat)                               │
//!                                                          ▼
//!                                          Grant: whose the replica has to be, where a new one belongs
//! ```
//!
//! Promise: a node that no leader has told yet whether tokens are needed admits nothing, and whoever takes keys takes
//! no older ones later, but for those of a registration. Who is refused learns no reason: logs and counters do.

use security::block_token::{self, Identifier, Mode};
use security::keys::{Key, KeyId, KeySet};
use security::sasl::digest::Qop;
use security::sasl::transfer::KeyBits;
use security::secret::{SECRET_LEN, Secret};
use std::sync::Arc;
use types::mutation::{Mutation, is};
use types::{BlockId, FileId, Millis};
use wire::{BlockScope, WireError, node};

/// The rules of the moment, for who admits operations.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    need: Need,
    keys: KeySet,
    /// What connections have to agree on, the best first. Empty: nothing.
    protection: Vec<Qop>,
    key_bits: KeyBits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Need {
    /// No leader has said so far.
    #[default]
    Unknown,
    /// Nobody is asked for a token. What an identifier tells is believed.
    None,
    Required,
}

/// The rules as leaders said them last.
#[derive(Debug, Default)]
pub struct Tokens {
    rules: Arc<TokenRules>,
}

/// What is to be done with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub block: BlockId,
    pub mode: Mode,
    /// A replica may be made where there is none: then the token must be of this very block.
    pub makes: bool,
}

/// An operation that was admitted, as far as the token is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose a new replica is and where it belongs, if the token tells.
    scope: Option<BlockScope>,
    /// Whose replicas it is for. `None`: nobody is asked.
    file: Option<FileId>,
}

/// Why an operation was not admitted. The asker gets the status on which it asks for a new token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this node has not heard yet whether tokens are needed: no metadata server that leads has told it")]
    Unknown,
    #[error(transparent)]
    Token(#[from] block_token::Refusal),
    /// Where none is needed.
    #[error(transparent)]
    Malformed(#[from] WireError),
}

/// What refusals are counted by.
pub const REASONS: [&str; 9] =
    ["rules_unknown", "malformed", "key_unknown", "forged", "expired", "user", "file", "block", "mode"];

impl Refusal {
    /// One of [`REASONS`].
    pub fn reason(&self) -> &'static str {
        use block_token::Refusal as Token;
        match self {
            Self::Unknown => "rules_unknown",
            Self::Malformed(_) | Self::Token(Token::Identifier(_)) => "malformed",
            Self::Token(Token::UnknownKey { .. }) => "key_unknown",
            Self::Token(Token::Forged) => "forged",
            Self::Token(Token::Expired { .. }) => "expired",
            Self::Token(Token::User { .. }) => "user",
            Self::Token(Token::File { .. }) => "file",
            Self::Token(Token::Block { .. }) => "block",
            Self::Token(Token::Mode { .. }) => "mode",
        }
    }
}

impl Tokens {
    /// The rules of the moment. They are not changed: who keeps them keeps old ones.
    pub fn rules(&self) -> Arc<TokenRules> {
        Arc::clone(&self.rules)
    }

    /// Of the keys that are here; 0: none are.
    pub fn revision(&self) -> u64 {
        self.rules.keys.revision()
    }

    /// A server that leads says what is so. `Err`: what it says of keys is not believed, and why.
    pub fn hear(&mut self, said: &node::TokenRules) -> Result<(), String> {
        let mut rules = TokenRules::clone(&self.rules);
        rules.need = if said.required { Need::Required } else { Need::None };
        rules.protection = protection(said);
        rules.key_bits = key_bits(said);
        let has_keys = !said.keys.is_empty() && said.revision != 0;
        let taken = if has_keys { take(&mut rules.keys, said) } else { Ok(()) };
        self.rules = Arc::new(rules);
        taken
    }

    /// A server that leads has registered this node, and tells all that it has: it counts in place of what is here,
    /// which may be of before the server was restored from a copy.
    pub(crate) fn hear_all(&mut self, said: &node::TokenRules) -> Result<(), String> {
        if !said.keys.is_empty() {
            self.rules = Arc::new(TokenRules { keys: KeySet::default(), ..TokenRules::clone(&self.rules) });
        }
        self.hear(said)
    }

    /// A server that leads is of a version that knows no tokens.
    pub(crate) fn hear_nothing(&mut self) {
        let keys = self.rules.keys.clone();
        self.rules = Arc::new(TokenRules { keys, ..TokenRules::open() });
    }
}

/// What one of a later version adds counts as the best that is known here: nobody gets less than was asked for.
fn protection(said: &node::TokenRules) -> Vec<Qop> {
    let words = said.data_transfer_protection.iter();
    let mut qops: Vec<Qop> = words.map(|word| Qop::parse_setting(word).unwrap_or(Qop::Privacy)).collect();
    qops.sort_unstable_by(|one, other| other.cmp(one));
    qops.dedup();
    qops
}

/// As with the protection, a later version's may be longer than what is known here.
fn key_bits(said: &node::TokenRules) -> KeyBits {
    match said.cipher_key_bits {
        0 => KeyBits::default(),
        count => KeyBits::of_count(count).unwrap_or(KeyBits::B256),
    }
}

fn take(keys: &mut KeySet, said: &node::TokenRules) -> Result<(), String> {
    if said.keys.len() > node::KEY_COUNT_MAX {
        return Err(format!("{} keys", said.keys.len()));
    }
    let mut all = Vec::with_capacity(said.keys.len());
    for key in &said.keys {
        let bytes = <[u8; SECRET_LEN]>::try_from(&key.secret[..]);
        let bytes = bytes.map_err(|_| format!("a secret of {} bytes", key.secret.len()))?;
        all.push(Key { id: KeyId(key.id), expires: Millis(key.expires_ms), secret: Secret::new(bytes) });
    }
    if is(Mutation::ForgetFormerKeys) {
        all.drain(..all.len().saturating_sub(2));
    }
    let newer = KeySet::new(said.revision, all).map_err(|error| error.to_string())?;
    keys.take(newer).map(drop).map_err(|error| error.to_string())
}

impl TokenRules {
    /// Nobody is asked for a token.
    pub fn open() -> Self {
        Self { need: Need::None, ..Self::default() }
    }

    /// What a connection has to agree on before its first operation, the best first. Empty: nothing.
    pub fn protection(&self) -> &[Qop] {
        &self.protection
    }

    /// How long the keys of AES are that a handshake gives out.
    pub fn key_bits(&self) -> KeyBits {
        self.key_bits
    }

    /// What tells the passwords of callers, if these have any.
    pub fn keys(&self) -> Option<&KeySet> {
        (self.need == Need::Required).then_some(&self.keys)
    }

    /// Whether an operation may be done. What the replica's record says of its file is compared by [`Grant::covers`],
    /// as soon as it was read.
    pub fn admit(&self, now: Millis, ask: Ask, identifier: &[u8], password: &[u8]) -> Result<Grant, Refusal> {
        let need = if is(Mutation::TokensUnchecked) && self.need == Need::Required { Need::None } else { self.need };
        match need {
            Need::Unknown => Err(Refusal::Unknown),
            Need::None => Ok(Grant { scope: BlockScope::decode(identifier)?, file: None }),
            Need::Required => Ok(self.admit_token(now, ask, identifier, password)?),
        }
    }

    fn admit_token(
        &self,
        now: Millis,
        Ask { block, mode, makes }: Ask,
        identifier: &[u8],
        password: &[u8],
    ) -> Result<Grant, block_token::Refusal> {
        let now = if is(Mutation::ExpiryUnchecked) { Millis(0) } else { now };
        // Whose the replica is its record says, which nobody has read so far.
        let file = Identifier::parse(identifier)?.0.file;
        // A connection is kept for blocks of several files, so the token of its handshake says nothing of this one.
        let admission = block_token::Admission { now, user: None, file, block, makes, mode };
        let proven = admission.check(&self.keys, identifier, password)?;
        let Identifier { file, home, .. } = *proven.identifier();
        Ok(Grant { scope: home.map(|home| BlockScope { file, home }), file: Some(file) })
    }
}

impl Grant {
    pub fn scope(&self) -> Option<BlockScope> {
        self.scope
    }

    /// Whose replicas it is for. Where nobody is asked for tokens, none says.
    pub fn file(&self) -> Option<FileId> {
        self.file
    }

    /// Whether it is for a replica of `file`, as its record says. To be asked before anything is done with the replica.
    pub fn covers(&self, file: FileId) -> Result<(), Refusal> {
        match self.file {
            Some(have) if have != file && !is(Mutation::FileUncompared) => {
                Err(block_token::Refusal::File { have, want: file }.into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use security::block_token::{Grant as Granted, Modes, Signer};
    use security::keys::{KeyRing, Lifetimes};
    use types::{ContainerId, InodeId};

    const BLOCK: BlockId = BlockId(7 << 20 | 1);
    const FILE: FileId = InodeId(16_400);
    const HOME: ContainerId = ContainerId(7);
    const NOW: Millis = Millis(1_000);

    fn ring() -> KeyRing {
        let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
        KeyRing::new(NOW, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets)
    }

    /// As the leader says it.
    fn said(ring: &KeyRing) -> node::TokenRules {
        let key = |key: &Key| node::TokenKey {
            id: key.id.0,
            expires_ms: key.expires.0,
            secret: key.secret.bytes().to_vec().into(),
        };
        node::TokenRules {
            required: true,
            revision: ring.keys().revision(),
            keys: ring.keys().iter().map(key).collect(),
            ..node::TokenRules::default()
        }
    }

    fn token(ring: &KeyRing, modes: &[Mode], block: Option<BlockId>) -> (Vec<u8>, Vec<u8>) {
        let grant = Granted { user: "ada", file: FILE, modes: Modes::of(modes), block };
        let token = Signer::new(0).sign(ring.rolled_at(), ring, grant).unwrap();
        (token.identifier(Some(HOME)), token.password().bytes().to_vec())
    }

    const READ: Ask = Ask { block: BLOCK, mode: Mode::Read, makes: false };

    fn admit(tokens: &Tokens, ask: Ask, (identifier, password): &(Vec<u8>, Vec<u8>)) -> Result<Grant, Refusal> {
        tokens.rules().admit(NOW, ask, identifier, password)
    }

    #[test]
    fn nothing_is_admitted_before_a_leader_has_spoken() {
        let mut tokens = Tokens::default();
        let scope = BlockScope { file: FILE, home: HOME };
        let unsigned = (scope.encode(), Vec::new());
        assert_eq!(admit(&tokens, READ, &unsigned), Err(Refusal::Unknown));
        tokens.hear(&node::TokenRules::default()).unwrap();
        let grant = admit(&tokens, READ, &unsigned).unwrap();
        assert_eq!((grant.scope(), grant.covers(InodeId(1))), (Some(scope), Ok(())));
        tokens.hear(&said(&ring())).unwrap();
        assert_eq!(admit(&tokens, READ, &unsigned).unwrap_err().reason(), "malformed");
        tokens.hear_nothing();
        assert!(admit(&tokens, READ, &unsigned).is_ok());
    }

    #[test]
    fn a_token_is_for_replicas_of_its_file() {
        let (mut tokens, ring) = (Tokens::default(), ring());
        tokens.hear(&said(&ring)).unwrap();
        let grant = admit(&tokens, READ, &token(&ring, &[Mode::Read], None)).unwrap();
        assert_eq!((grant.covers(FILE), grant.scope().unwrap().home), (Ok(()), HOME));
        assert_eq!(grant.covers(InodeId(1)).unwrap_err().reason(), "file");
        let write = Ask { mode: Mode::Write, makes: true, ..READ };
        assert_eq!(admit(&tokens, write, &token(&ring, &[Mode::Read], None)).unwrap_err().reason(), "block");
        let of_block = token(&ring, &[Mode::Write], Some(BLOCK));
        assert!(admit(&tokens, write, &of_block).is_ok());
        assert_eq!(admit(&tokens, READ, &of_block).unwrap_err().reason(), "mode");
        assert_eq!(admit(&tokens, Ask { block: BlockId(9), ..write }, &of_block).unwrap_err().reason(), "block");
    }

    #[test]
    fn what_connections_must_agree_on_is_the_leaders_word() {
        let mut tokens = Tokens::default();
        let mut said = said(&ring());
        tokens.hear(&said).unwrap();
        assert!(tokens.rules().protection().is_empty());
        said.data_transfer_protection = ["authentication", "privacy", "of a later version"].map(str::to_owned).to_vec();
        tokens.hear(&said).unwrap();
        assert_eq!(tokens.rules().protection(), [Qop::Privacy, Qop::Auth]);
        assert!(tokens.rules().keys().is_some());
        for (count, bits) in [(0, KeyBits::B128), (192, KeyBits::B192), (256, KeyBits::B256), (512, KeyBits::B256)] {
            said.cipher_key_bits = count;
            tokens.hear_all(&said).unwrap();
            assert_eq!(tokens.rules().key_bits(), bits);
        }
        tokens.hear_nothing();
        assert!(tokens.rules().protection().is_empty() && tokens.rules().keys().is_none());
        assert_eq!(tokens.rules().key_bits(), KeyBits::B128);
    }

    /// Rolls are heard of in time; who led before has no say any more.
    #[test]
    fn keys_come_with_a_higher_revision_alone() {
        let (mut tokens, mut ring) = (Tokens::default(), ring());
        let before = said(&ring);
        tokens.hear(&before).unwrap();
        let of_first = token(&ring, &[Mode::Read], None);
        ring.roll(ring.roll_at(), Secret::new([3; SECRET_LEN])).unwrap();
        let of_second = token(&ring, &[Mode::Read], None);
        assert!(admit(&tokens, READ, &of_second).is_ok(), "the next key was known");
        tokens.hear(&said(&ring)).unwrap();
        assert_eq!(tokens.revision(), 2);
        assert!(tokens.hear(&before).is_err());
        tokens.hear_all(&before).unwrap();
        assert_eq!(tokens.revision(), 1, "the server was restored from a copy");
        tokens.hear(&said(&ring)).unwrap();
        tokens.hear(&node::TokenRules { required: true, revision: 2, ..node::TokenRules::default() }).unwrap();
        assert!(admit(&tokens, READ, &of_first).is_ok() && admit(&tokens, READ, &of_second).is_ok());
        let odd = node::TokenKey { id: 9, expires_ms: u64::MAX, secret: vec![1; 5].into() };
        assert!(
            tokens
                .hear(&node::TokenRules { required: true, revision: 9, keys: vec![odd], ..node::TokenRules::default() })
                .is_err()
        );
        assert_eq!(tokens.revision(), 2);
    }
}
