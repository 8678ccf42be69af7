//! Delegation tokens in the rows, and the end of those that have expired. The rules are `security::delegation`'s; who
//! calls by one is `token_claims`.
//!
//! ```text
//! getDelegationToken ─▶ leader: ring, next number ─▶ IssueToken ─▶ rows ──▶ all servers
//! ```

use crate::core::Core;
use crate::task_fault::rest_after_fault;
use namespace::{DelegationToken, ForgetTokens, read};
use security::delegation::{Identifier, IdentifierHash, Kept};
use security::keys::KeySet;
use security::rings::{self, RingKind};
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsError};

/// Rows of tokens that are looked at in one step, and forgotten by one entry of the log.
const LOOK_COUNT: usize = 1000;
/// Between two looks for tokens that have expired, if they live for long. HDFS: an hour.
const LOOK_EACH_MAX: Duration = Duration::from_secs(3600);
const LOOK_EACH_MIN: Duration = Duration::from_secs(1);
/// Looks in the time after which a token expires.
const LOOKS_PER_INTERVAL: u32 = 24;

/// A token as the audit log names it.
pub(crate) fn token_name(identifier: &Identifier) -> String {
    format!("token {} of {}", identifier.sequence, identifier.owner)
}

/// Until when a token counts, and of which identifier.
fn kept(token: &DelegationToken) -> Kept {
    Kept { expires: token.expires, hash: token.hash }
}

/// What is kept of a token, and the keys that may have signed it.
pub(crate) fn found(rows: &dyn Rows, identifier: &[u8]) -> Result<(Option<Kept>, KeySet), RowsError> {
    let keys = rings::ring(rows, RingKind::DelegationTokens)?.map(|ring| ring.keys().clone()).unwrap_or_default();
    let token = match Identifier::parse(identifier) {
        Ok(identifier) => read::delegation_token(rows, identifier.sequence)?,
        Err(_) => None,
    };
    Ok((token.as_ref().map(kept), keys))
}

/// The row of a token that is given out.
pub(crate) fn row(identifier: &Identifier, kept: Kept) -> DelegationToken {
    let (owner, renewer) = (identifier.owner.clone(), identifier.renewer.clone());
    DelegationToken { expires: kept.expires, max: identifier.max, hash: kept.hash, owner, renewer }
}

/// The hash of an identifier that was parsed.
pub(crate) fn hash_of(kept: Option<Kept>) -> IdentifierHash {
    kept.map(|kept| kept.hash).unwrap_or_default()
}

/// Forgets tokens that have expired, for as long as this server leads.
pub(crate) async fn run(core: Arc<Core>) {
    let interval = core.config.security.delegation_rules().renew_interval;
    let pause = (interval / LOOKS_PER_INTERVAL).clamp(LOOK_EACH_MIN, LOOK_EACH_MAX);
    loop {
        io::time::sleep(pause).await;
        rest_after_fault(forget(&core).await).await;
    }
}

async fn forget(core: &Core) -> Result<(), crate::block_deletion::ReapError> {
    let mut after = 0;
    // What safe mode keeps out is found again by its rows.
    while core.safe_mode()?.is_none() {
        let now = core.now();
        let (numbers, next) = core.chore_rows(move |rows| read::expired_tokens(rows, now, after, LOOK_COUNT)).await?;
        if !numbers.is_empty() {
            let count = numbers.len();
            assert!(count <= LOOK_COUNT, "{count} tokens are listed of {LOOK_COUNT} rows");
            core.change_unasked(ForgetTokens { numbers }).await?;
            tracing::info!(count, "expired delegation tokens forgotten");
        }
        match next {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
    Ok(())
}
