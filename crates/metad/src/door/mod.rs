//! The door: the single entry of all calls. It checks the caller and writes the audit log, as [`table`] says.
//!
//! ```text
//! call ─▶ protocol, version ─▶ method's row ─▶ leads? ─▶ who? (Principal) ─▶ may he? ─▶ handler
//!              │                                 │          │                  │           │
//!              └ no such protocol                └ standby  └──── denied ──────┘           ▼
//!                                                                  └──────────▶ audit ◀─ answer
//! ```
//!
//! Promise: a handler is reached only through a row, and every row says who may call. What depends on the request (a
//! file's owner, a path's rights) is checked where the request is carried out. Such checks are named with the row.

mod protocol;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use crate::audit::Rationed;
use crate::call_record::{CallTimer, Caller, Named, is_denied};
use crate::core::Core;
use crate::leadership::Leadership;
use crate::method::{Audit, Handler, Method, Needs, Who};
use crate::rack_lookup;
use crate::report::Report;
use crate::rights::Right;
use crate::visit::Visit;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::STANDBY;
use protocol::Protocol;
use rpc::Call;
use std::sync::{Arc, OnceLock};
use types::mutation::{self, Mutation};
use wire::node::NODE_REVOKED;

/// Passes a call that came over RPC.
pub(crate) async fn pass(leadership: &Arc<Leadership>, call: Call) -> Result<Bytes, Exception> {
    pass_one(leadership, call, None).await
}

/// Passes what was asked over HTTP; the report goes into `report`.
pub(crate) async fn pass_for_report(leadership: &Arc<Leadership>, call: Call, report: Report) -> Result<(), Exception> {
    pass_one(leadership, call, Some(report))
        .await
        .map(|empty| assert!(empty.is_empty(), "a report is all of the answer"))
}

async fn pass_one(leadership: &Arc<Leadership>, call: Call, report: Option<Report>) -> Result<Bytes, Exception> {
    let found = table::find(&call.protocol, &call.method);
    let Some((protocol, method, row)) = found.filter(|(protocol, ..)| protocol.has_reports == report.is_some()) else {
        return Err(call.no_such_protocol());
    };
    if let Some(version) = protocol.version {
        call.check_version(version)?;
    }
    assert!(method.name.is_empty() || method.name == call.method, "{} is not {}", method.name, call.method);
    let came = CallTimer::now(leadership);
    let leader = Arc::clone(leadership);
    let subject = OnceLock::new();
    let mut visit = Visit { leadership: leader, call, core: None, session: None, standby: None, report, subject };
    let answer = match enter(protocol, method, &mut visit).await {
        Ok(handler) => handler(&visit).await,
        Err(refused) => Err(refused),
    };
    let time = came.passed(leadership);
    leadership.telemetry.calls.ended(row.0, time, answer.as_ref().err().map(|refused| refused.class));
    if is_recorded(leadership, method, &visit.call, &answer) {
        let Call { user, peer, .. } = &visit.call;
        let mut caller = Caller {
            user: &user.effective,
            real: user.real.as_deref(),
            method: user.proof.method(),
            // A query over HTTP has none.
            address: if peer.port() == 0 { peer.ip().to_canonical().to_string() } else { peer.to_string() },
        };
        // Whoever has a token may say any name.
        if method.who == Who::Newcomer {
            (caller.user, caller.real) = ("newcomer", None);
        }
        // A refused caller is recorded under the name that it gave.
        if let Some(session) = &visit.session {
            (caller.user, caller.real) = (&session.name, session.real.as_deref());
        }
        let named = Named {
            protocol: protocol.name,
            method: &visit.call.method,
            paths: (method.paths)(&visit.call),
            subject: visit.subject.get().cloned().or_else(|| (method.subject)(&visit.call)),
        };
        match &answer {
            Err(refused) if refused.class == NODE_REVOKED => {
                came.record_rationed(leadership, Rationed::Revoked, &caller, named, refused);
            }
            _ => came.record(leadership, time, &caller, named, &answer),
        }
    }
    answer
}

/// The handler of the call, if it is permitted.
async fn enter(protocol: &Protocol, method: &Method, visit: &mut Visit) -> Result<Handler, Exception> {
    let (leadership, call) = (&visit.leadership, &visit.call);
    if method.who == Who::Member && leadership.peers.is_none() {
        return Err(call.no_such_method());
    }
    let mut handler = method.handler;
    match method.needs {
        Needs::Any => {}
        Needs::LeaderOr(standby) => match leadership.leading().await {
            Ok(core) => visit.core = Some(core),
            Err(refused) if refused.class == STANDBY => {
                visit.standby = Some(refused);
                handler = standby;
            }
            Err(error) => return Err(error),
        },
        Needs::Leader => visit.core = Some(leader(leadership, protocol).await?),
    }
    // What every user may ask of a server that stands by is answered without the user database. Where callers prove who
    // they are, a proof of some name is not yet a user.
    let is_asked = match method.who {
        Who::Anyone => leadership.users.asks_for_proof(),
        Who::Node => leadership.users.asks_servers_for_proof(),
        Who::User => visit.standby.is_none(),
        Who::Administrator | Who::Superuser | Who::Member => true,
        Who::Newcomer => false,
    };
    if is_asked {
        let session = match method.who {
            Who::Member => leadership.session_to_admit(call).await?,
            _ => leadership.session(call).await?,
        };
        match method.who {
            Who::Anyone | Who::User | Who::Newcomer => {}
            Who::Node => session.must_be_a_datanode(&leadership.users)?,
            Who::Administrator => {
                let operation = protocol.names_operations.then_some(call.method.as_str());
                session.must_have(right(method), operation)?;
            }
            Who::Superuser => session.must_be_superuser(None)?,
            Who::Member => {
                session.must_have(Right::Change, None)?;
                session.must_be_a_member(&leadership.users)?;
                leadership.admission.admit(call.peer, &call.user.proof).await?;
            }
        }
        if let Some(core) = visit.core.as_ref().filter(|_| protocol.has_clients) {
            rack_lookup::locate(core, &session).await;
        }
        visit.session = Some(session);
    }
    Ok(handler)
}

/// What changes something is recorded as a change.
fn right(method: &Method) -> Right {
    if method.audit == Audit::Change { Right::Change } else { Right::Look }
}

async fn leader(leadership: &Leadership, protocol: &Protocol) -> Result<Arc<Core>, Exception> {
    if mutation::is(Mutation::StaleReads)
        && protocol.has_clients
        && let Some(core) = leadership.core()
    {
        return Ok(core);
    }
    leadership.leading().await
}

fn is_recorded(leadership: &Leadership, method: &Method, call: &Call, answer: &Result<Bytes, Exception>) -> bool {
    let Some(log) = &leadership.audit else { return false };
    match answer {
        // Who has proven nothing and has no token that counts would fill the log, and so have the rest of it forgotten.
        Err(_) if method.who == Who::Newcomer => false,
        Err(error) if is_denied(error) => true,
        // The caller goes to the server that leads, which records it.
        Err(error) if error.class == STANDBY => false,
        _ => match method.audit {
            Audit::Change if (method.is_query)(call) => log.has_reads,
            Audit::Change => true,
            Audit::Read => log.has_reads,
            Audit::Never => false,
        },
    }
}
