//! Calls that must not run twice: their outcome is kept for ten minutes and given again to a repeat.

use crate::damage;
use crate::error::corrupt;
use crate::limits::{RETRY_KEPT, RETRY_PURGED_PER_APPLY};
use crate::queue_head;
use crate::record::{decode, encode};
use crate::reply::Reply;
use crate::request::Request;
use crate::retry_key::RetryKey;
use crate::tables::{RETRY, RETRY_EXPIRY};
use std::ops::ControlFlow;
use types::Millis;
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError, RowsMut};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetryRow {
    pub(crate) expires: Millis,
    /// Name of the operation. A client that uses one key for two different calls must not get the answer of the other.
    pub(crate) op: String,
    pub(crate) reply: Reply,
}
types::record!(RetryRow { 0: expires, 1: op, 2: reply });

/// What is kept under a key.
pub(crate) enum Kept {
    /// The answer this call got before.
    Reply(Reply),
    /// That of another call, or one that is to be dropped at this time.
    Other(Millis),
}

pub(crate) fn recall(rows: &dyn Rows, key: RetryKey, op: &str, now: Millis) -> Result<Option<Kept>, RowsError> {
    let row = match rows.get(RETRY, &retry_key(key))? {
        Some(bytes) => decode::<RetryRow>("read an outcome", &bytes)?,
        None => return Ok(None),
    };
    let is_same = row.expires > now && row.op == op && !mutation::is(Mutation::ForgetRetries);
    Ok(Some(if is_same { Kept::Reply(row.reply) } else { Kept::Other(row.expires) }))
}

/// The answer that the call `op` got under this key, if it is still kept.
pub fn outcome(rows: &dyn Rows, key: RetryKey, op: &str, now: Millis) -> Result<Option<Reply>, RowsError> {
    Ok(match recall(rows, key, op, now)? {
        Some(Kept::Reply(reply)) => Some(reply),
        Some(Kept::Other(_)) | None => None,
    })
}

/// Keeps the answer, in place of what is kept until `other`. A call that was told to wait for a recovery has failed, as
/// far as its client knows: it runs again.
pub(crate) fn remember(
    rows: &mut dyn RowsMut,
    key: RetryKey,
    other: Option<Millis>,
    request: &Request,
    reply: &Reply,
) -> Result<(), RowsError> {
    if matches!(reply, Reply::Recovery(_)) {
        return Ok(());
    }
    if let Some(expires) = other {
        rows.delete(RETRY_EXPIRY, &expiry_key(expires, key));
    }
    let expires = request.now.plus(RETRY_KEPT);
    let row = RetryRow { expires, op: request.op.name().into(), reply: reply.clone() };
    rows.put(RETRY, &retry_key(key), encode(&row));
    queue_head::add(rows, RETRY_EXPIRY, &expiry_key(expires, key), Vec::new())
}

/// Drops a few of the outcomes nobody will ask for any more. Most changes find none, and look at one row to see that.
pub(crate) fn purge(rows: &mut dyn RowsMut, now: Millis) -> Result<(), RowsError> {
    let is_kept = |key: &[u8]| split_expiry(key).is_some_and(|(expires, _)| expires > now);
    let front = queue_head::front(rows, RETRY_EXPIRY)?;
    if front.as_deref().is_some_and(is_kept) {
        return Ok(());
    }
    let (mut expired, mut first_kept): (Vec<Vec<u8>>, _) = (Vec::new(), None);
    queue_head::scan_from(rows, RETRY_EXPIRY, front.as_deref(), &mut |key, _| {
        if is_kept(key) {
            first_kept = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        if expired.len() == RETRY_PURGED_PER_APPLY {
            return ControlFlow::Break(());
        }
        expired.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    for key in expired {
        let (_, retry) = split_expiry(&key).ok_or_else(|| corrupt("purge outcomes", "a key of a wrong length"))?;
        debug_assert!(
            damage::is_expected() || !matches!(rows.get(RETRY, retry), Ok(None)),
            "an outcome is listed by age, and is not there"
        );
        rows.delete(RETRY, retry);
        queue_head::take(rows, RETRY_EXPIRY, &key);
    }
    if let Some(key) = first_kept {
        queue_head::advance(rows, RETRY_EXPIRY, &key);
    }
    Ok(())
}

fn retry_key(key: RetryKey) -> Vec<u8> {
    [&key.client[..], &key.call.to_be_bytes()].concat()
}

fn expiry_key(expires: Millis, key: RetryKey) -> Vec<u8> {
    [&expires.0.to_be_bytes()[..], &retry_key(key)].concat()
}

/// Parts a key of RETRY_EXPIRY into time and key of RETRY.
pub(crate) fn split_expiry(key: &[u8]) -> Option<(Millis, &[u8])> {
    let (expires, retry) = key.split_first_chunk::<8>()?;
    (retry.len() == 20).then(|| (Millis(u64::from_be_bytes(*expires)), retry))
}
