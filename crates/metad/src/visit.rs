//! A permitted call, as its handler sees it.

use crate::core::Core;
use crate::leadership::Leadership;
use crate::report::Report;
use crate::session::Session;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use std::sync::{Arc, OnceLock};

/// A call that was let in.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) call: Call,
    pub(crate) core: Option<Arc<Core>>,
    pub(crate) session: Option<Session>,
    pub(crate) standby: Option<Exception>,
    /// Receiver of the report, if this is a query over HTTP.
    pub(crate) report: Option<Report>,
    /// What it turned out to be about, for the audit log, where the request does not say so: an id that was drawn.
    pub(crate) subject: OnceLock<String>,
}

impl Visit {
    pub(crate) fn request<M: Message + Default>(&self) -> Result<M, Exception> {
        self.call.request()
    }

    /// Of a row that needs the leader.
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.core.as_ref().expect("a row whose handler asks for the leader needs it")
    }

    /// Of a row that is for users, at the leader.
    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().expect("a row whose handler asks who calls is not for anyone")
    }

    /// Of a row whose protocol has reports.
    pub(crate) fn report(&self) -> &Report {
        self.report.as_ref().expect("a row whose handler reports is asked over HTTP")
    }

    /// How a server refuses that stands by.
    pub(crate) fn standby(&self) -> Exception {
        self.standby.clone().expect("who leads does not stand by")
    }
}
