//! One line a call for the audit log: tracing's target `audit`, at debug level. Costs one comparison when nobody
//! listens.

use crate::caller::Session;
use crate::core::Core;
use hdfs::Exception;
use std::time::Duration;

/// A call under way; `None` inside when nobody listens.
pub(crate) struct Entry(Option<Call>);

struct Call {
    begun: Duration,
    user: String,
    host: String,
    method: &'static str,
    paths: Vec<String>,
}

impl Entry {
    /// `paths`: source and destination, as far as the call has them.
    pub(crate) fn begin(core: &Core, session: &Session, method: &'static str, paths: &[&str]) -> Self {
        if !tracing::enabled!(target: "audit", tracing::Level::DEBUG) {
            return Self(None);
        }
        Self(Some(Call {
            begun: core.monotonic(),
            user: session.caller.user.clone(),
            host: session.host(),
            method,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }))
    }

    pub(crate) fn end<T>(self, core: &Core, answer: &Result<T, Exception>) {
        let Some(Call { begun, user, host, method, paths }) = self.0 else { return };
        let denied = matches!(answer, Err(error) if error.class == hdfs::exception::ACCESS_CONTROL);
        tracing::debug!(
            target: "audit",
            allowed = !denied,
            user,
            ip = host,
            cmd = method,
            src = paths.first().map_or("", String::as_str),
            dst = paths.get(1).map_or("", String::as_str),
            error = answer.as_ref().err().map_or("", |error| error.class),
            us = core.monotonic().saturating_sub(begun).as_micros() as u64,
        );
    }
}
