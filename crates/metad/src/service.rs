//! Callbacks of the RPC server. Calls pass the door.

use crate::door;
use crate::leadership::Leadership;
use bytes::Bytes;
use hdfs::Exception;
use rpc::Call;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) leadership: Arc<Leadership>,
}

impl rpc::Service for Service {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        door::pass(&self.leadership, call).await
    }

    async fn admit_urgent(&self, peer: SocketAddr) -> Result<(), Exception> {
        self.leadership.admission.admit(peer).await
    }

    fn opened(&self, peer: SocketAddr) {
        self.leadership.connections.opened(peer);
    }

    fn hung_up(&self, peer: SocketAddr) {
        self.leadership.hung_up(peer);
    }
}
