//! Record of a call for the audit log.

use crate::audit::{Record, listed, shortened};
use crate::date;
use crate::leadership::Leadership;
use hdfs::Exception;
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION};
use security::method::Method;
use std::time::Duration;
use types::Millis;
use wire::node::{NODE_IN_USE, NODE_SUPERSEDED};

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
        let Named { protocol, method, paths, subject } = named;
        let (paths, more_paths) = listed(paths);
        let error = answer.as_ref().err();
        let (authentication, real_authentication) = caller.authentication();
        log.record(&Record {
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
            subject: subject.as_deref().map(shortened),
            allowed: !error.is_some_and(is_denied),
            error: error.map(|error| error.class),
            duration_us: time.as_micros() as u64,
        });
    }
}

/// A process that takes a datanode's id may not, either.
pub(crate) fn is_denied(error: &Exception) -> bool {
    [ACCESS_CONTROL, AUTHORIZATION, NODE_IN_USE, NODE_SUPERSEDED].contains(&error.class)
}
