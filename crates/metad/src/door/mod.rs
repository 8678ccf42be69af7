//! The door: who may call what, of whom, and what is written down of it. [`table`] says it; this passes calls by that.
//!
//! ```text
//! call ─▶ protocol, version ─▶ method's row ─▶ leads? ─▶ who? (Principal) ─▶ may he? ─▶ handler
//!              │                                 │          │                  │           │
//!              └ no such protocol                └ standby  └──── denied ──────┘           ▼
//!                                                                  └──────────▶ audit ◀─ answer
//! ```
//!
//! Promise: no handler is reached but through a row, and no row is without an answer to who may call. What depends on
//! the request (a file's owner, a path's rights) is checked where the request is carried out; such checks are named
//! with the row.

pub(crate) mod table;
#[cfg(test)]
mod tests;

use crate::audit::{Record, shortened};
use crate::caller::{Authentication, Session};
use crate::core::Core;
use crate::date;
use crate::racks;
use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION, STANDBY};
use rpc::Call;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use types::Millis;
use types::mutation::{self, Mutation};
use wire::node::{NODE_IN_USE, NODE_SUPERSEDED};

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever reaches the port. Nobody is looked up.
    Anyone,
    /// A user under a name that can be one. Only a superuser acts for another.
    User,
    /// The user who runs the server, and members of the supergroup. HDFS names the operation in its refusal, or not.
    Superuser { names_operation: bool },
    /// A datanode. What SIMPLE can prove stands in its messages: the id of this store's block pool when it registers
    /// (`nodes::is_foreign`), and the registration with each message after that (`nodes::admit`).
    Node,
    /// Another server of the group: the user who runs them all, from the address of a member (`admission`).
    Member,
}

/// Of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The leader, as a majority confirms it: others say that they stand by.
    Leader,
    /// The leader; one that stands by has an answer of its own, [`Protocol::standby`].
    LeaderOrStandby,
    /// Any server, of itself.
    Any,
}

/// What the audit log has of it. What was denied it has in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audit {
    /// Each call.
    Change,
    /// Each call where reads are recorded.
    Read,
    /// None: such calls come all the time, and are about no file.
    Never,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) needs: Needs,
    pub(crate) audit: Audit,
    /// Fields of the request that are paths.
    pub(crate) paths: fn(&Call) -> Vec<String>,
    /// What else it is about: a datanode, a member, a job.
    pub(crate) subject: fn(&Call) -> Option<String>,
}

/// Rows of one protocol, and who answers them.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    /// `None`: HDFS's tools name any.
    pub(crate) version: Option<u64>,
    pub(crate) methods: &'static [Method],
    /// Stands for all that are not listed: the handler refuses them, in the words of the protocol.
    pub(crate) other: Method,
    /// Its callers are clients, whose racks decide where they read and write.
    pub(crate) has_clients: bool,
    pub(crate) handler: Handler,
    /// What a server answers that stands by, where a row says so.
    pub(crate) standby: Option<Handler>,
}

pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Exception>> + Send + 'a>>;
pub(crate) type Handler = for<'a> fn(&'a Visit) -> Answer<'a>;

/// A call that was let in.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) seat: Arc<Seat>,
    pub(crate) call: Call,
    core: Option<Arc<Core>>,
    session: Option<Session>,
    standby: Option<Exception>,
}

impl Visit {
    /// Of a row that needs the leader.
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.core.as_ref().expect("a row whose handler asks for the leader needs it")
    }

    /// Of a row that is for users, at the leader.
    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().expect("a row whose handler asks who calls is not for anyone")
    }

    /// How a server refuses that stands by.
    pub(crate) fn standby(&self) -> Exception {
        self.standby.clone().expect("who leads does not stand by")
    }
}

/// Passes a call.
pub(crate) async fn pass(seat: &Arc<Seat>, call: Call) -> Result<Bytes, Exception> {
    let Some((protocol, method)) = table::find(&call.protocol, &call.method) else {
        return Err(call.no_such_protocol());
    };
    if let Some(version) = protocol.version {
        call.check_version(version)?;
    }
    let came = Came::now(seat);
    let mut visit = Visit { seat: Arc::clone(seat), call, core: None, session: None, standby: None };
    let answer = match enter(protocol, method, &mut visit).await {
        Ok(handler) => handler(&visit).await,
        Err(refused) => Err(refused),
    };
    if is_recorded(seat, method, &answer) {
        let Call { user, peer, .. } = &visit.call;
        let mut caller = Caller {
            user: &user.effective,
            real: user.real.as_deref(),
            authentication: Authentication::Simple,
            address: peer.to_string(),
        };
        // Who was not let in is written down as he says he is.
        if let Some(session) = &visit.session {
            (caller.real, caller.authentication) = (session.real.as_deref(), session.authentication);
        }
        let named = Named {
            protocol: protocol.name,
            method: &visit.call.method,
            paths: (method.paths)(&visit.call),
            subject: (method.subject)(&visit.call),
        };
        came.record(seat, &caller, named, &answer);
    }
    answer
}

/// Who is to answer, if the call may come in.
async fn enter(protocol: &Protocol, method: &Method, visit: &mut Visit) -> Result<Handler, Exception> {
    let (seat, call) = (&visit.seat, &visit.call);
    if method.who == Who::Member && seat.peers.is_none() {
        return Err(call.no_such_method());
    }
    let mut handler = protocol.handler;
    match (method.needs, protocol.standby) {
        (Needs::Any, _) => {}
        (Needs::LeaderOrStandby, Some(standby)) => match seat.leading().await {
            Ok(core) => visit.core = Some(core),
            Err(refused) if refused.class == STANDBY => {
                visit.standby = Some(refused);
                handler = standby;
            }
            Err(error) => return Err(error),
        },
        (Needs::Leader | Needs::LeaderOrStandby, _) => {
            visit.core =
                Some(match seat.core().filter(|_| mutation::is(Mutation::StaleReads) && protocol.has_clients) {
                    Some(core) => core,
                    None => seat.leading().await?,
                });
        }
    }
    // What every user may ask of a server that stands by is answered without the user database.
    let is_asked = match method.who {
        Who::Anyone | Who::Node => false,
        Who::User => visit.standby.is_none(),
        Who::Superuser { .. } | Who::Member => true,
    };
    if is_asked {
        let session = seat.users.session(call, seat.clock.monotonic()).await?;
        match method.who {
            Who::Anyone | Who::User | Who::Node => {}
            Who::Superuser { names_operation: true } => session.must_be_superuser(&call.method)?,
            Who::Superuser { names_operation: false } => session.superuser("")?,
            Who::Member => {
                session.superuser("")?;
                seat.admission.admit_still(seat, call.peer).await?;
            }
        }
        if let Some(core) = visit.core.as_ref().filter(|_| protocol.has_clients) {
            racks::locate(core, &session).await;
        }
        visit.session = Some(session);
    }
    Ok(handler)
}

/// A process that takes a datanode's id may not, either.
fn is_denied(error: &Exception) -> bool {
    [ACCESS_CONTROL, AUTHORIZATION, NODE_IN_USE, NODE_SUPERSEDED].contains(&error.class)
}

fn is_recorded(seat: &Seat, method: &Method, answer: &Result<Bytes, Exception>) -> bool {
    let Some(log) = &seat.audit else { return false };
    match answer {
        Err(error) if is_denied(error) => true,
        // The caller goes to the server that leads, which records it.
        Err(error) if error.class == STANDBY => false,
        _ => match method.audit {
            Audit::Change => true,
            Audit::Read => log.has_reads,
            Audit::Never => false,
        },
    }
}

/// Who called.
pub(crate) struct Caller<'a> {
    pub(crate) user: &'a str,
    pub(crate) real: Option<&'a str>,
    pub(crate) authentication: Authentication,
    pub(crate) address: String,
}

/// What was called, and what for.
pub(crate) struct Named<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) method: &'a str,
    pub(crate) paths: Vec<String>,
    pub(crate) subject: Option<String>,
}

/// When a call came.
pub(crate) struct Came {
    at: Millis,
    since: Duration,
}

impl Came {
    pub(crate) fn now(seat: &Seat) -> Self {
        Self { at: seat.clock.now(), since: seat.clock.monotonic() }
    }

    /// Writes a call down that is over.
    pub(crate) fn record<T>(&self, seat: &Seat, caller: &Caller<'_>, named: Named<'_>, answer: &Result<T, Exception>) {
        let Some(log) = &seat.audit else { return };
        let Named { protocol, method, paths, subject } = named;
        let error = answer.as_ref().err();
        log.record(&Record {
            time: date::rfc3339(self.at),
            user: shortened(caller.user),
            real_user: caller.real.map(shortened),
            authentication: caller.authentication.name(),
            address: caller.address.clone(),
            protocol: protocol.rsplit('.').next().unwrap_or(protocol),
            method: shortened(method),
            paths: paths.iter().map(|path| shortened(path).to_owned()).collect(),
            subject: subject.as_deref().map(shortened),
            allowed: !error.is_some_and(is_denied),
            error: error.map(|error| error.class),
            duration_us: seat.clock.monotonic().saturating_sub(self.since).as_micros() as u64,
        });
    }
}
