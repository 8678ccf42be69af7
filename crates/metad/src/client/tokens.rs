//! Delegation tokens and keys for data encryption. Where callers prove nothing no tokens are needed, so none are given
//! out.

use crate::block_tokens;
use crate::command;
use crate::core::Core;
use crate::delegation_tokens::{found, hash_of, row, token_name};
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::{ACCESS_CONTROL, INVALID_TOKEN, Kind, RETRIABLE};
use hdfs::proto::*;
use namespace::{CancelToken, IssueToken, RenewToken, Reply, read};
use security::delegation::{self, Caller, Identifier, Issued, Kept, Proven, Refusal, Request, Rules};
use security::encryption_key;
use security::rings::RingKind;
use security::sasl::digest::Cipher;
use types::Random;

/// Numbers that are tried for one token: each that is taken was given out by an earlier leader.
const NUMBER_COUNT_MAX: usize = 3;

/// For the audit log.
pub(super) fn renewer(request: &GetDelegationTokenRequestProto) -> Option<String> {
    Some(&request.renewer).filter(|renewer| !renewer.is_empty()).map(|renewer| format!("renewer {renewer}"))
}

pub(super) fn renewed(request: &RenewDelegationTokenRequestProto) -> Option<String> {
    named(&request.token)
}

pub(super) fn cancelled(request: &CancelDelegationTokenRequestProto) -> Option<String> {
    named(&request.token)
}

/// As the token itself says, which may be forged.
fn named(token: &TokenProto) -> Option<String> {
    Identifier::parse(&token.identifier).ok().as_ref().map(token_name)
}

/// None is the sign to go on without.
pub(super) async fn get_delegation_token(
    core: &Core,
    session: &Session,
    request: GetDelegationTokenRequestProto,
) -> Result<GetDelegationTokenResponseProto, Exception> {
    if !core.config.security.is_kerberos() {
        return Ok(GetDelegationTokenResponseProto { token: None });
    }
    core.must_be_changeable(|| "Cannot issue delegation token".into())?;
    let renewer = match request.renewer.as_str() {
        "" => String::new(),
        renewer => core.users.short_name(renewer)?,
    };
    let rules = core.config.security.delegation_rules();
    Rules::may_issue(session.proof.method()).map_err(refused)?;
    must_have_level(core)?;
    for _ in 0..NUMBER_COUNT_MAX {
        let last = core.rows_here(read::last_token)?;
        let issued = {
            let mut leader = core.leader();
            let sequence = leader.token_numbers.next(last);
            let request = Request {
                method: session.proof.method(),
                owner: &session.name,
                real_user: session.real.as_deref().unwrap_or_default(),
                renewer: &renewer,
                sequence,
            };
            let ring = leader.keys.ring(RingKind::DelegationTokens).ok_or_else(no_keys)?;
            rules.issue(core.now(), ring, request).map_err(refused)?
        };
        let Issued { identifier, password, kept } = issued;
        assert!(identifier.sequence >= last.max(1), "number {} comes before {last}", identifier.sequence);
        assert!(kept.expires <= identifier.max, "a token counts beyond its last day");
        let issue = IssueToken { number: identifier.sequence, token: row(&identifier, kept) };
        if core.change(session, issue).await? == Reply::Bool(true) {
            let Identifier { owner, renewer, sequence, .. } = &identifier;
            tracing::debug!(owner, renewer, sequence, "delegation token given out");
            let token = TokenProto {
                identifier: identifier.encode().into(),
                password: password.bytes().to_vec().into(),
                kind: delegation::KIND.to_owned(),
                // Its client fills it in: it knows by which name it reached this server.
                service: String::new(),
            };
            return Ok(GetDelegationTokenResponseProto { token: Some(token) });
        }
    }
    Err(Exception::new(RETRIABLE, "the numbers of delegation tokens were taken meanwhile; try again"))
}

pub(super) async fn renew_delegation_token(
    core: &Core,
    session: &Session,
    request: RenewDelegationTokenRequestProto,
) -> Result<RenewDelegationTokenResponseProto, Exception> {
    core.must_be_changeable(|| "Cannot renew delegation token".into())?;
    let (proven, kept) = proven(core, session, request.token).await?;
    let rules = core.config.security.delegation_rules();
    let expires = rules.renew(core.now(), &proven, kept, caller(session)).map_err(refused)?;
    let number = proven.identifier().sequence;
    must_have_level(core)?;
    match core.change(session, RenewToken { number, hash: hash_of(kept), expires }).await? {
        Reply::Bool(true) => Ok(RenewDelegationTokenResponseProto { new_expiry_time: expires.0 }),
        _ => Err(gone(&proven)),
    }
}

pub(super) async fn cancel_delegation_token(
    core: &Core,
    session: &Session,
    request: CancelDelegationTokenRequestProto,
) -> Result<CancelDelegationTokenResponseProto, Exception> {
    core.must_be_changeable(|| "Cannot cancel delegation token".into())?;
    let (proven, kept) = proven(core, session, request.token).await?;
    delegation::cancel(&proven, kept, caller(session)).map_err(refused)?;
    must_have_level(core)?;
    match core.change(session, CancelToken { number: proven.identifier().sequence, hash: hash_of(kept) }).await? {
        Reply::Bool(true) => Ok(CancelDelegationTokenResponseProto {}),
        _ => Err(gone(&proven)),
    }
}

/// A token whose password is its own, and what is kept of it.
async fn proven(core: &Core, session: &Session, token: TokenProto) -> Result<(Proven, Option<Kept>), Exception> {
    if !core.config.security.is_kerberos() {
        return Err(Exception::new(INVALID_TOKEN, "the token can't be found: this server gave none out"));
    }
    let identifier = token.identifier.clone();
    let (kept, keys) = core.rows(move |rows| found(rows, &identifier)).await?;
    let proven = delegation::check(core.now(), &keys, &token.identifier, &token.password, caller(session));
    Ok((proven.map_err(refused)?, kept))
}

/// The leader raises it as soon as all members know it.
fn must_have_level(core: &Core) -> Result<(), Exception> {
    if core.raft.level() >= command::DELEGATION_TOKENS {
        return Ok(());
    }
    Err(Exception::new(RETRIABLE, "a server of the group is of an older version, which knows no delegation tokens"))
}

fn caller(session: &Session) -> Caller<'_> {
    Caller { method: session.proof.method(), name: &session.name, short_name: &session.caller.user }
}

fn gone(proven: &Proven) -> Exception {
    let identifier = proven.identifier();
    refused(Refusal::Unknown { owner: identifier.owner.clone(), sequence: identifier.sequence })
}

fn no_keys() -> Exception {
    Exception::new(RETRIABLE, "there are no keys for delegation tokens yet; try again in a moment")
}

fn refused(refusal: Refusal) -> Exception {
    let message = refusal.to_string();
    match refusal {
        Refusal::Method { .. } => Exception::io(message).with_kind(Kind::PermissionDenied),
        Refusal::KeyExpires { .. } => Exception::new(RETRIABLE, message),
        refusal if refusal.is_invalid_token() => Exception::new(INVALID_TOKEN, message),
        _ => Exception::new(ACCESS_CONTROL, message),
    }
}

/// Every caller gets another one, of the key that signs block tokens. Operations need their tokens all the same.
pub(super) async fn get_data_encryption_key(
    core: &Core,
    _session: &Session,
    _request: GetDataEncryptionKeyRequestProto,
) -> Result<GetDataEncryptionKeyResponseProto, Exception> {
    if !core.config.security.encrypt_data_transfer {
        return Ok(GetDataEncryptionKeyResponseProto { data_encryption_key: None });
    }
    block_tokens::ready(core).await;
    let made = core.with_leader(|leader, random| {
        let key = leader.keys.ring(RingKind::BlockTokens)?.current();
        let nonce = random.next_u64().to_ne_bytes();
        Some(DataEncryptionKeyProto {
            key_id: key.id.0,
            block_pool_id: core.pool.clone(),
            nonce: nonce.to_vec().into(),
            encryption_key: encryption_key::sign(key, &nonce).bytes().to_vec().into(),
            expiry_date: key.expires.0,
            encryption_algorithm: Some(Cipher::TripleDes.name().to_owned()),
        })
    });
    let made = made.ok_or_else(|| Exception::new(RETRIABLE, "the store has no keys so far; ask again"))?;
    Ok(GetDataEncryptionKeyResponseProto { data_encryption_key: Some(made) })
}
