//! Carrying out one request: what holds for all operations, around the operation itself.

use crate::caller::Caller;
use crate::context::Context;
use crate::effects::{Applied, Effects};
use crate::error::{Answer, Failure, INVALID_PATH, NsError, split};
use crate::ops::Op;
use crate::request::Request;
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
    if let Some(key) = key
        && let Some(reply) = retry::recall(rows, key, request)?
    {
        return Ok(Applied { reply, effects: Effects::default() });
    }
    if safe_mode::get(&*rows)?.is_some()
        && let Some(cannot) = safe_mode_gate::cannot(&request.op)
    {
        return Err(NsError::SafeMode(cannot).into());
    }
    for home in request.op.homes() {
        if !is_there(&*rows, home)? {
            return Err(NsError::Other(format!("{home} was empty and is gone; ask for another block")).into());
        }
    }
    check_reserved(&request.caller, &request.op)?;
    let effects = Effects::default();
    let mut context = Context { rows: &mut *rows, now: request.now, caller: &request.caller, effects };
    let reply = request.op.run(&mut context).map_err(|failure| in_its_words(&request.op, failure))?;
    let Context { effects, .. } = context;
    effects.check();
    retry::purge(rows, request.now)?;
    if let Some(key) = key {
        retry::remember(rows, key, request, &reply)?;
    }
    Ok(Applied { reply, effects })
}

/// Refuses changes by way of `raw`, which are for superusers, and changes of `/.reserved` itself.
fn check_reserved(caller: &Caller, op: &Op) -> Result<(), NsError> {
    let (path, other) = op.paths();
    if !caller.superuser && [path, other].into_iter().flatten().any(reserved::is_raw) {
        return Err(NsError::denied(
            caller,
            format!(
                "Access denied for user {}. Superuser privilege is required for operation {}",
                caller.user,
                op.name()
            ),
        ));
    }
    match (op, path) {
        (Op::Mkdirs(_), Some(path)) if !reserved::may_be_made(path) => Err(NsError::IllegalArgument(
            "File name \".reserved\" is reserved and cannot be created. If this is during upgrade change the name of the existing \
             file or directory to another name before upgrading to the new release."
                .into(),
        )),
        (Op::Delete(_) | Op::SetPermission(_) | Op::SetOwner(_), Some(path)) if reserved::is_top(path) => {
            Err(NsError::invalid_path(path))
        }
        _ => Ok(()),
    }
}

/// HDFS names a path that can be no new one in two ways.
fn in_its_words(op: &Op, failure: Failure) -> Failure {
    match (op, failure) {
        (Op::Mkdirs(_) | Op::Rename(_) | Op::Rename2(_), Failure::Refused(NsError::InvalidPath(text))) => {
            let path = text.strip_prefix(INVALID_PATH).unwrap_or(&text);
            NsError::InvalidPath(format!("{INVALID_PATH}Invalid file name: {path}")).into()
        }
        (_, failure) => failure,
    }
}
