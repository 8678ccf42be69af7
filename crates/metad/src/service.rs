//! Callbacks of the RPC server. Calls pass the door.

use crate::door;
use crate::leadership::Leadership;
use crate::token_claims;
use bytes::Bytes;
use hdfs::Exception;
use rpc::{Call, Identity};
use security::delegation::Claim;
use security::method::Method;
use security::node_name::Certified;
use security::sasl::rpc::{ClaimError, Refused};
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

    fn claim(&self, identifier: &[u8]) -> Result<Claim, ClaimError> {
        token_claims::claim(&self.leadership, identifier)
    }

    fn authenticated(&self, _peer: SocketAddr, method: Method) {
        self.leadership.telemetry.authentications.succeeded(method);
    }

    fn unauthenticated(&self, _peer: SocketAddr) {
        self.leadership.telemetry.authentications.failed();
    }

    fn token_refused(&self, peer: SocketAddr, refused: &Refused) {
        token_claims::record_refusal(&self.leadership, peer, refused);
    }

    fn still_counts(&self, peer: SocketAddr, node: &Certified) -> bool {
        self.leadership.still_counts(peer, node)
    }

    async fn admit_urgent(&self, peer: SocketAddr, user: &Identity) -> Result<(), Exception> {
        self.leadership.users.must_be_a_member(user)?;
        self.leadership.admission.admit(peer, &user.proof).await
    }

    fn opened(&self, peer: SocketAddr) {
        self.leadership.connections.opened(peer);
    }

    fn hung_up(&self, peer: SocketAddr) {
        self.leadership.hung_up(peer);
    }
}
