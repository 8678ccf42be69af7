//! Safe mode: the namespace stays as it is until an administrator says otherwise.
//!
//! Promise: what HDFS calls the safe mode that is turned on manually. It is entered and left by an entry of the log, so all members of
//! the group and every later leader are in it, and none is ever in it by itself: a server that starts serves at once.

use crate::caller::Session;
use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::{Reply, SetSafeMode};
use std::sync::Arc;

pub(super) async fn set_safe_mode(
    core: &Arc<Core>,
    session: &Session,
    request: SetSafeModeRequestProto,
) -> Result<SetSafeModeResponseProto, Exception> {
    let on = match wanted(&request)? {
        None => core.safe_mode().map_err(refusal::rows)?.is_some(),
        Some(on) => matches!(core.change(session, SetSafeMode { on }).await?, Reply::Bool(true)),
    };
    if !on {
        // What was deleted before may be freed now, and files whose writers are gone be closed.
        core.was_doomed();
        core.repair_wake.notify_one();
    }
    Ok(SetSafeModeResponseProto { result: on })
}

/// `None`: it is only asked for.
pub(crate) fn wanted(request: &SetSafeModeRequestProto) -> Result<Option<bool>, Exception> {
    match SafeModeActionProto::try_from(request.action) {
        Ok(SafeModeActionProto::SafemodeGet) => Ok(None),
        Ok(SafeModeActionProto::SafemodeEnter) => Ok(Some(true)),
        // There is nothing that it would have to be forced against.
        Ok(SafeModeActionProto::SafemodeLeave | SafeModeActionProto::SafemodeForceExit) => Ok(Some(false)),
        Err(_) => Err(refusal::illegal(format!("{} is no action of safe mode", request.action))),
    }
}
