//! The tokens that answers and orders carry: for whom, of which file, with what they allow.
//!
//! Promise: all blocks of one file have one signature, and those of one home the same bytes, which are not copied.
//! Where no tokens are asked for, what a block has instead tells file and home, and is signed by nobody. They are asked
//! for from the first keys on: these wait until all members know the form, and nobody's data is to wait for that.

use crate::core::Core;
use crate::session::Session;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::RETRIABLE;
use hdfs::proto::TokenProto;
use io::time::sleep;
use lead::{KeyRings, SignError};
use namespace::BlockView;
use prost::Message;
use security::block_token::{Admission, Grant, Mode, Modes, SignedToken};
use security::keys::Key;
use security::rings::RingKind;
use std::time::Duration;
use types::{BlockId, ContainerId, FileId, Millis};
use wire::{BlockScope, node};

/// Named by the tokens of orders, which no user asked for.
const CLUSTER_USER: &str = "levada-cluster";
/// Right after the first start keys are a moment late, as they are where nobody led for longer than they last.
const KEYS_WAIT: Duration = Duration::from_secs(6);
const KEYS_POLL: Duration = Duration::from_millis(20);

/// What a token of one file is made of.
#[derive(Clone, Debug)]
enum Made {
    Unsigned(FileId),
    Signed { token: SignedToken, password: Bytes },
}

impl Made {
    fn signed(token: SignedToken) -> Self {
        let password = Bytes::copy_from_slice(token.password().bytes());
        Self::Signed { token, password }
    }

    fn identifier(&self, home: ContainerId) -> Bytes {
        match self {
            Self::Unsigned(file) => BlockScope { file: *file, home }.encode().into(),
            Self::Signed { token, .. } => token.identifier(Some(home)).into(),
        }
    }

    fn password(&self) -> Bytes {
        match self {
            Self::Unsigned(_) => Bytes::new(),
            Self::Signed { password, .. } => password.clone(),
        }
    }
}

/// Tokens to read the blocks of an answer, one after the other.
#[derive(Debug)]
pub(crate) struct ReadTokens<'a> {
    /// `None`: they are not signed.
    signer: Option<(&'a Core, &'a str)>,
    /// Of the last block.
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    file: FileId,
    home: ContainerId,
    made: Made,
    /// A `TokenProto`.
    encoded: Vec<u8>,
}

impl<'a> ReadTokens<'a> {
    /// For who may read the file. [`ready`] was awaited.
    pub(crate) fn of(core: &'a Core, session: &'a Session) -> Self {
        let signer = core.config.block_tokens.then_some((core, &*session.caller.user));
        Self { signer, current: None }
    }

    /// For who only lists a directory, and may perhaps not read what is in it.
    pub(crate) fn none() -> Self {
        Self { signer: None, current: None }
    }

    /// A `TokenProto`, encoded. The leader must not be locked by this thread.
    pub(crate) fn token(&mut self, view: &BlockView) -> Result<&[u8], Exception> {
        let (file, home) = (view.replica_file(), view.home);
        let current = match self.current.take() {
            Some(current) if current.file == file && current.home == home => current,
            other => {
                let made = match other {
                    Some(Current { file: of, made, .. }) if of == file => made,
                    _ => self.make(file)?,
                };
                let encoded = proto(made.identifier(home), made.password()).encode_to_vec();
                Current { file, home, made, encoded }
            }
        };
        Ok(&self.current.insert(current).encoded)
    }

    fn make(&self, file: FileId) -> Result<Made, Exception> {
        let Some((core, user)) = self.signer else { return Ok(Made::Unsigned(file)) };
        let grant = Grant { user, file, modes: Modes::of(&[Mode::Read]), block: None };
        let now = core.now();
        sign(&mut core.leader().keys, now, grant).map_err(refused)
    }
}

/// What a writer brings along to do this with a block of its file.
pub(crate) async fn to_write(
    core: &Core,
    session: &Session,
    view: &BlockView,
    modes: &[Mode],
) -> Result<TokenProto, Exception> {
    let [(identifier, password)] = to_write_each(core, session, [(view.block, view.replica_file())], view.home, modes)
        .await?
        .try_into()
        .expect("a token for each block");
    Ok(proto(identifier, password))
}

/// Identifier and password for each of some blocks of one home.
pub(crate) async fn to_write_each(
    core: &Core,
    session: &Session,
    blocks: impl IntoIterator<Item = (BlockId, FileId)>,
    home: ContainerId,
    modes: &[Mode],
) -> Result<Vec<(Bytes, Bytes)>, Exception> {
    ready(core).await;
    let (user, modes, now) = (&*session.caller.user, Modes::of(modes), core.now());
    let mut leader = core.config.block_tokens.then(|| core.leader());
    let make = |(block, file)| {
        let made = match &mut leader {
            None => Made::Unsigned(file),
            Some(leader) => {
                let grant = Grant { user, file, modes, block: Some(block) };
                sign(&mut leader.keys, now, grant).map_err(refused)?
            }
        };
        Ok((made.identifier(home), made.password()))
    };
    blocks.into_iter().map(make).collect()
}

/// Whether a block was given to the caller for this file, and to do this with: its token says so, where tokens are
/// signed.
pub(crate) fn prove(
    core: &Core,
    session: &Session,
    (block, file, mode): (BlockId, FileId, Mode),
    identifier: &[u8],
    password: &[u8],
) -> bool {
    if !core.config.block_tokens {
        return true;
    }
    let leader = core.leader();
    // Without keys nothing was signed.
    let Some(keys) = leader.keys.keys(RingKind::BlockTokens) else { return true };
    let user = Some(&*session.caller.user);
    let admission = Admission { now: core.now(), user, file, block, makes: true, mode };
    match admission.check(keys, identifier, password) {
        Ok(_) => true,
        Err(why) => {
            tracing::info!(%block, user = &*session.caller.user, %why, "a block on lease was not proven");
            false
        }
    }
}

/// For an order of this server itself. `None`: none is needed, or there are no keys at the moment, and the order comes
/// to nothing.
pub(crate) fn of_order(
    core: &Core,
    file: FileId,
    home: ContainerId,
    mode: Mode,
    block: BlockId,
) -> Option<node::BlockToken> {
    if !core.config.block_tokens {
        return Some(unsigned(file, home));
    }
    let modes = Modes::of(&[mode]);
    let grant = Grant { user: CLUSTER_USER, file, modes, block: modes.changes().then_some(block) };
    of_cluster(core, home, block, grant)
}

/// To read a found block for a superuser, and no other block of what may be a file that is there.
pub(crate) fn to_read_found(core: &Core, file: FileId, home: ContainerId, block: BlockId) -> Option<node::BlockToken> {
    if !core.config.block_tokens {
        return Some(unsigned(file, home));
    }
    let grant = Grant { user: CLUSTER_USER, file, modes: Modes::of(&[Mode::Read]), block: Some(block) };
    of_cluster(core, home, block, grant)
}

fn unsigned(file: FileId, home: ContainerId) -> node::BlockToken {
    node::BlockToken { identifier: BlockScope { file, home }.encode().into(), password: Bytes::new() }
}

fn of_cluster(core: &Core, home: ContainerId, block: BlockId, grant: Grant<'_>) -> Option<node::BlockToken> {
    let now = core.now();
    match sign(&mut core.leader().keys, now, grant) {
        Ok(made) => Some(node::BlockToken { identifier: made.identifier(home), password: made.password() }),
        Err(error) => {
            tracing::warn!(%block, %error, "an order has no token");
            None
        }
    }
}

fn sign(keys: &mut KeyRings, now: Millis, grant: Grant<'_>) -> Result<Made, SignError> {
    match keys.sign(now, grant) {
        Err(SignError::NoKeys) => Ok(Made::Unsigned(grant.file)),
        signed => signed.map(Made::signed),
    }
}

/// What a datanode is told that has the keys of revision `known`.
pub(crate) fn rules(core: &Core, known: u64) -> node::TokenRules {
    if !core.config.block_tokens {
        return node::TokenRules::default();
    }
    let leader = core.leader();
    let Some(keys) = leader.keys.keys(RingKind::BlockTokens) else {
        // Until all members know the form of keys there are none, and no tokens are asked for. Where data is not to
        // travel unprotected it does not travel then.
        return match protection(core) {
            none if none.is_empty() => node::TokenRules::default(),
            data_transfer_protection => {
                node::TokenRules { required: true, data_transfer_protection, ..node::TokenRules::default() }
            }
        };
    };
    let key = |key: &Key| node::TokenKey {
        id: key.id.0,
        expires_ms: key.expires.0,
        secret: Bytes::copy_from_slice(key.secret.bytes()),
    };
    let keys_to_send = if keys.revision() == known { Vec::new() } else { keys.iter().map(key).collect() };
    node::TokenRules {
        required: true,
        revision: keys.revision(),
        keys: keys_to_send,
        data_transfer_protection: protection(core),
        cipher_key_bits: core.config.security.data_transfer_key_bits,
    }
}

/// What connections of data transfer have to agree on, by the words of the settings.
pub(crate) fn protection(core: &Core) -> Vec<String> {
    let qops = core.config.security.transfer_qops().expect("it was checked at the start");
    qops.into_iter().map(|qop| qop.setting().to_owned()).collect()
}

/// Returns when there is a key that signs, if one is needed; at the latest after some seconds. A leader of longer than
/// these that has none at all is waiting for members, which may be down for good.
pub(crate) async fn ready(core: &Core) {
    let Some(lifetimes) = core.config.block_token_lifetimes() else { return };
    let is_ready = || match core.leader().keys.ring(RingKind::BlockTokens) {
        Some(ring) => ring.lifetimes() == lifetimes && ring.current().expires > core.now(),
        None => core.monotonic().saturating_sub(core.receiving_since()) >= KEYS_WAIT,
    };
    for _ in 0..KEYS_WAIT.as_millis() / KEYS_POLL.as_millis() {
        if is_ready() {
            return;
        }
        sleep(KEYS_POLL).await;
    }
}

fn proto(identifier: Bytes, password: Bytes) -> TokenProto {
    TokenProto { identifier, password, kind: wire::token::KIND.to_owned(), ..TokenProto::none() }
}

fn refused(error: SignError) -> Exception {
    if error.is_momentary() {
        tracing::warn!(%error, "a block token was not signed");
        return Exception::new(RETRIABLE, error.to_string());
    }
    Exception::io(error.to_string())
}
