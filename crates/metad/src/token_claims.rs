//! Who calls by a delegation token: each server of the group knows, by the rows and keys that it has; and the audit log
//! has who was refused.
//!
//! ```text
//! SASL ─▶ identifier ─▶ row, ring ─▶ the password that the caller has to prove
//! ```

use crate::audit::Rationed;
use crate::call_record::{CallTimer, Caller, Named};
use crate::delegation_tokens::{found, token_name};
use crate::leadership::Leadership;
use hdfs::Exception;
use hdfs::exception::STANDBY;
use security::delegation::{self, Claim, Identifier, Refusal};
use security::method::Method;
use security::sasl::rpc::{ClaimError, Refused};
use std::net::SocketAddr;
use types::Millis;
use types::rows::{Rows, RowsError};

/// The token that a caller says it has, as this server's rows know it. It may wait for a disk.
pub(crate) fn claim(leadership: &Leadership, identifier: &[u8]) -> Result<Claim, ClaimError> {
    let view = leadership.machine.store().view();
    let claimed = claimed(&view, leadership.clock.now(), identifier);
    let claimed = claimed.map_err(|error| ClaimError::Token { reason: error.to_string() })?;
    claimed.map_err(|refusal| match refusal {
        // A server that stands by may not have heard of the token yet, nor of its renewal: the leader has. So it is
        // with one that led until it was cut off, and does not know that it leads no more.
        Refusal::Unknown { .. } | Refusal::Expired { .. } if !leadership.is_sure() => {
            let standby = leadership.standby();
            ClaimError::Told(Exception::unauthorized(standby.class, standby.message))
        }
        refusal => refusal.into(),
    })
}

fn claimed(rows: &dyn Rows, now: Millis, identifier: &[u8]) -> Result<Result<Claim, Refusal>, RowsError> {
    let (kept, keys) = found(rows, identifier)?;
    Ok(delegation::authenticate(now, &keys, identifier, |_| kept))
}

/// Writes down who was refused with a token. The name is the token's, and nobody proved it: who proves nothing could
/// cause any number of lines, so they are rationed.
pub(crate) fn record_refusal(leadership: &Leadership, peer: SocketAddr, refused: &Refused) {
    // The caller goes to the server that leads.
    let (Some(identifier), false) = (&refused.identifier, refused.told.class == STANDBY) else { return };
    let token = Identifier::parse(identifier).ok();
    let (owner, real) = token.as_ref().map_or(("", ""), |token| (&*token.owner, &*token.real_user));
    let real = Some(real).filter(|real| !real.is_empty());
    let caller = Caller { user: owner, real, method: Method::Token, address: peer.to_string() };
    let subject = token.as_ref().map(token_name);
    let named = Named { protocol: "SASL", method: "login", paths: Vec::new(), subject };
    // What the client hears would not say why.
    let error = Exception { message: refused.reason.clone(), ..refused.told.clone() };
    CallTimer::now(leadership).record_rationed(leadership, Rationed::Strangers, &caller, named, &error);
}
