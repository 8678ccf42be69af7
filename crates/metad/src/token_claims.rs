//! Who calls by a delegation token: each server of the group knows, by the rows and keys that it has.
//!
//! ```text
//! SASL ─▶ identifier ─▶ row, ring ─▶ the password that the caller has to prove
//! ```

use crate::delegation_tokens::kept;
use crate::leadership::Leadership;
use hdfs::Exception;
use namespace::read;
use security::delegation::Claim;
use security::delegation::{self, Identifier, Refusal};
use security::rings::{self, RingKind};
use security::sasl::rpc::ClaimError;
use types::Millis;
use types::rows::{Rows, RowsError};

/// The token that a caller says it has, as this server's rows know it. It may wait for a disk.
pub(crate) fn claim(leadership: &Leadership, identifier: &[u8]) -> Result<Claim, ClaimError> {
    let view = leadership.machine.store().view();
    let claimed = claimed(&view, leadership.clock.now(), identifier);
    let claimed = claimed.map_err(|error| ClaimError::Token { reason: error.to_string() })?;
    claimed.map_err(|refusal| match refusal {
        // A server that stands by may not have heard of the token yet, nor of its renewal: the leader has.
        Refusal::Unknown { .. } | Refusal::Expired { .. } if leadership.core().is_none() => {
            let standby = leadership.standby();
            ClaimError::Told(Exception::unauthorized(standby.class, standby.message))
        }
        refusal => refusal.into(),
    })
}

fn claimed(rows: &dyn Rows, now: Millis, identifier: &[u8]) -> Result<Result<delegation::Claim, Refusal>, RowsError> {
    let keys = rings::ring(rows, RingKind::DelegationTokens)?.map(|ring| ring.keys().clone()).unwrap_or_default();
    let mut fault = None;
    let kept = |identifier: &Identifier| {
        let token = read::delegation_token(rows, identifier.sequence).map(|token| token.map(|token| kept(&token)));
        token.unwrap_or_else(|error| {
            fault = Some(error);
            None
        })
    };
    let claimed = delegation::authenticate(now, &keys, identifier, kept);
    fault.map_or(Ok(claimed), Err)
}
