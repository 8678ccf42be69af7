//! Carrying out one request: what holds for all operations, around the operation itself.

use crate::caller::Caller;
use crate::context::Context;
use crate::effects::{Applied, Effects};
use crate::error::block_fault::BlockFault;
use crate::error::{Answer, Failure, NsError, Purpose, ReservedName, split};
use crate::ops::Op;
use crate::request::Request;
use crate::retry::Kept;
use crate::{reserved, retry, safe_mode, safe_mode_gate};
use types::ContainerId;
use types::rows::{Rows, RowsError, RowsMut};

/// Applies one request: its reply, and what the leader looks after from then on. On a refusal (`Ok(Err(..))`) some rows
/// may be changed already: the caller hands in a staged change and drops it then.
pub fn apply(rows: &mut dyn RowsMut, request: &Request) -> Answer<Applied> {
    apply_with(rows, request, &|_, _| Ok(true))
}

/// What the block side says of a container: whether it is there.
pub type IsThere = dyn Fn(&dyn Rows, ContainerId) -> Result<bool, RowsError>;

/// As [`apply`], and no block gets a home that is not there: it was on its way when its container, which was empty, was
/// removed.
pub fn apply_with(rows: &mut dyn RowsMut, request: &Request, is_there: &IsThere) -> Answer<Applied> {
    split(apply_once(rows, request, is_there))
}

fn apply_once(rows: &mut dyn RowsMut, request: &Request, is_there: &IsThere) -> Result<Applied, Failure> {
    let key = request.retry.filter(|_| request.op.is_at_most_once());
    let kept = key.map(|key| retry::recall(rows, key, request.op.name(), request.now)).transpose()?.flatten();
    let other = match kept {
        Some(Kept::Reply(reply)) => return Ok(Applied { reply, effects: Effects::default() }),
        Some(Kept::Other(expires)) => Some(expires),
        None => None,
    };
    if safe_mode::get(&*rows)?.is_some()
        && let Some(blocked) = safe_mode_gate::blocked(&request.op)
    {
        return Err(NsError::SafeMode(blocked).into());
    }
    for home in request.op.homes() {
        if !is_there(&*rows, home)? {
            return Err(BlockFault::HomeGone(home).into());
        }
    }
    check_reserved(&request.caller, &request.op)?;
    let effects = Effects::default();
    let mut context = Context { rows: &mut *rows, now: request.now, caller: &request.caller, effects };
    let reply = request.op.run(&mut context)?;
    let Context { effects, .. } = context;
    effects.check();
    retry::purge(rows, request.now)?;
    if let Some(key) = key {
        retry::remember(rows, key, other, request, &reply)?;
    }
    Ok(Applied { reply, effects })
}

/// Refuses changes by way of `raw`, which are for superusers, and changes of `/.reserved` itself.
fn check_reserved(caller: &Caller, op: &Op) -> Result<(), NsError> {
    let (path, other) = op.paths();
    if !caller.superuser && [path, other].into_iter().flatten().any(reserved::is_raw) {
        return Err(NsError::needs_superuser(caller, op.name()));
    }
    match (op, path) {
        (Op::Mkdirs(_), Some(path)) if !reserved::may_be_made(path) => {
            Err(NsError::ReservedName(ReservedName::Reserved))
        }
        (Op::Delete(_) | Op::SetPermission(_) | Op::SetOwner(_), Some(path)) if reserved::is_top(path) => {
            Err(NsError::InvalidPath { path: path.clone(), purpose: Purpose::Find })
        }
        _ => Ok(()),
    }
}
