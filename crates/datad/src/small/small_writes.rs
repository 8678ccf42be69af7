//! What small writes need beside all operations: who puts their replicas here, and connections to other nodes.

use super::committer::Committer;
use crate::data_service::DataService;
use io::request_connections::{ConnectOptions, RequestConnections, Waiter};
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;
use wire::small::SmallAnswer;
use xfer::small::{Caller, CallerLimits};

#[derive(Debug)]
pub(crate) struct SmallWrites {
    /// Dropped first: its threads have ended when the replicas are nobody's any more.
    pub(super) committer: Committer,
    pub(super) service: Arc<DataService>,
    /// To other nodes.
    pub(super) connections: RequestConnections<Caller<Waiter<SmallAnswer>>>,
}

impl SmallWrites {
    /// Starts the threads that put replicas.
    pub(crate) fn start(service: Arc<DataService>) -> Result<Self> {
        let committer = Committer::start(&service.replicas.disks, &service.replicas.node)?;
        let connect_time_max = Duration::from_millis(service.limits.connect_ms);
        let connection_count_max = service.limits.connection_count_max;
        let options = ConnectOptions {
            socket: service.sockets.clone(),
            connect_time_max,
            connection_count_max,
            ..ConnectOptions::default()
        };
        let connections = RequestConnections::new(options, CallerLimits::of_targets());
        let connections = connections.prepared_by(Arc::clone(&service.outward) as _);
        Ok(Self { service, committer, connections })
    }
}
