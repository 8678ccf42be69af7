//! A call that was let in, as its handler sees it.

use crate::caller::Session;
use crate::core::Core;
use crate::seat::Seat;
use hdfs::Exception;
use rpc::Call;
use std::sync::Arc;

/// A call that was let in.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) seat: Arc<Seat>,
    pub(crate) call: Call,
    pub(crate) core: Option<Arc<Core>>,
    pub(crate) session: Option<Session>,
    pub(crate) standby: Option<Exception>,
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
