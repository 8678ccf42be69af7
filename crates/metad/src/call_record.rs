//! Record of a call for the audit log.

use crate::audit::{Rationed, Record, listed, shortened};
use crate::date;
use crate::leadership::Leadership;
use hdfs::Exception;
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION, INVALID_TOKEN, Kind};
use security::method::Method;
use std::time::Duration;
use types::Millis;
use wire::node::{NODE_IN_USE, NODE_REVOKED, NODE_SUPERSEDED};

/// The caller.
pub(crate) struct Caller<'a> {
    pub(crate) user: &'a str,
    pub(crate) real: Option<&'a str>,
    /// Of whoever made the call.
    pub(crate) method: Method,
    pub(crate) address: String,
}

impl Caller<'_> {
    /// How the user was authenticated, as HDFS names it, and how the real user was if there is one.
    fn authentication(&self) -> (&'static str, Option<&'static str>) {
        match (self.real, self.method) {
            (None, method) => (method.name(), None),
            // It is a token for both.
            (Some(_), Method::Token) => (Method::Token.name(), Some(Method::Token.name())),
            (Some(_), method) => (PROXY, Some(method.name())),
        }
    }
}

/// Bytes of a reason in a line. Most have a hundred; some repeat a path.
const REASON_LEN_MAX: usize = 300;

/// For whom another one vouches.
const PROXY: &str = "PROXY";

/// What was called, and what for.
pub(crate) struct Named<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) method: &'a str,
    pub(crate) paths: Vec<String>,
    pub(crate) subject: Option<String>,
}

/// When a call came.
pub(crate) struct CallTimer {
    at: Millis,
    since: Duration,
}

impl CallTimer {
    pub(crate) fn now(leadership: &Leadership) -> Self {
        Self { at: leadership.clock.now(), since: leadership.clock.monotonic() }
    }

    /// Time since then.
    pub(crate) fn passed(&self, leadership: &Leadership) -> Duration {
        leadership.clock.monotonic().saturating_sub(self.since)
    }

    /// Writes a call down that is over, and took this time.
    pub(crate) fn record<T>(
        &self,
        leadership: &Leadership,
        time: Duration,
        caller: &Caller<'_>,
        named: Named<'_>,
        answer: &Result<T, Exception>,
    ) {
        let Some(log) = &leadership.audit else { return };
        log.record(&self.line(time, caller, named, answer.as_ref().err()));
    }

    /// As [`Self::record`] for a refusal that its caller can cause as often as he likes; not each of these gets a line.
    pub(crate) fn record_rationed(
        &self,
        leadership: &Leadership,
        kind: Rationed,
        caller: &Caller<'_>,
        named: Named<'_>,
        refused: &Exception,
    ) {
        let Some(log) = &leadership.audit else { return };
        let line = || self.line(self.passed(leadership), caller, named, Some(refused));
        log.record_rationed(kind, self.since, line);
    }

    fn line<'a>(
        &self,
        time: Duration,
        caller: &Caller<'a>,
        named: Named<'a>,
        error: Option<&'a Exception>,
    ) -> Record<'a> {
        let Named { protocol, method, paths, subject } = named;
        let (paths, more_paths) = listed(paths);
        let (authentication, real_authentication) = caller.authentication();
        Record {
            time: date::rfc3339(self.at),
            user: shortened(caller.user),
            real_user: caller.real.map(shortened),
            authentication,
            real_authentication,
            address: caller.address.clone(),
            protocol: protocol.rsplit('.').next().unwrap_or(protocol),
            method: shortened(method),
            paths,
            more_paths,
            subject: subject.map(|subject| shortened(&subject).to_owned()),
            allowed: !error.is_some_and(is_denied),
            error: error.map(|error| error.class),
            reason: error.map(|error| reason(&error.message)),
            duration_us: time.as_micros() as u64,
            passed_over: 0,
        }
    }
}

/// What people need of it: the first line, and no paths of megabytes.
fn reason(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(REASON_LEN_MAX)]
}

/// A process that takes a datanode's id may not, either, and who shows a token that does not count may not what it is
/// for. Some refusals have a class of HDFS's that says less, and a kind.
pub(crate) fn is_denied(error: &Exception) -> bool {
    let kind = error.detail.as_ref().and_then(|detail| detail.known_kind());
    let classes = [ACCESS_CONTROL, AUTHORIZATION, INVALID_TOKEN, NODE_IN_USE, NODE_SUPERSEDED, NODE_REVOKED];
    classes.contains(&error.class) || kind == Some(Kind::PermissionDenied)
}
