//! One call, as a service sees it.

use crate::budget::Budget;
use crate::identity::Identity;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use security::delegation::Claim;
use security::method::Method;
use security::node_name::Certified;
use security::sasl::rpc::{ClaimError, Refused};
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Call {
    /// Several protocols may share a port: this says which one is meant.
    pub protocol: String,
    pub method: String,
    /// Of the protocol.
    pub version: u64,
    /// The request message, undelimited.
    pub body: Bytes,
    pub user: Arc<Identity>,
    /// With `call_id` the name of this call across retries: 16 bytes in stock clients, but a stranger chose it.
    pub client_id: Bytes,
    pub call_id: i32,
    /// 0 for the first try.
    pub retry_count: i32,
    pub peer: SocketAddr,
    /// Nobody else hears what is answered: the connection is inside TLS, or sealed for privacy, or both its ends are on
    /// this machine.
    pub is_private: bool,
    pub untaken: Untaken,
}

/// The answers of a server that clients have not taken yet.
#[derive(Clone, Debug)]
pub struct Untaken(pub(crate) Arc<Budget>);

/// Of no server: nothing is ever untaken.
impl Default for Untaken {
    fn default() -> Self {
        Self(Budget::new(usize::MAX))
    }
}

impl Untaken {
    /// Waits while they are too many. For a call that is about to make a long answer: how long cannot be known when it
    /// is let in.
    pub async fn wait_for_less(&self) {
        self.0.taken().await;
    }
}

impl Call {
    /// The request message.
    pub fn request<M: Message + Default>(&self) -> Result<M, Exception> {
        M::decode(self.body.clone()).map_err(|error| Exception::malformed_request(&self.method, error))
    }

    /// What a service answers to a method it does not have.
    pub fn no_such_method(&self) -> Exception {
        Exception::no_such_method(&self.method, &self.protocol)
    }

    /// What a service answers to a protocol it does not have.
    pub fn no_such_protocol(&self) -> Exception {
        Exception::no_such_protocol(&self.protocol)
    }

    /// Refuses versions of the protocol other than `version`.
    pub fn check_version(&self, version: u64) -> Result<(), Exception> {
        if self.version == version {
            Ok(())
        } else {
            Err(Exception::protocol_version(&self.protocol, self.version, version))
        }
    }
}

/// What a server serves.
pub trait Service: Send + Sync + 'static {
    /// Answers with the response message, encoded and undelimited. It runs to its end even if the client hangs up:
    /// begun where the request was read, and, when it first waits, in a task of its own. A panic is answered as an
    /// error of the call.
    fn call(&self, call: Call) -> impl Future<Output = Result<Bytes, Exception>> + Send;

    /// Whether urgent requests are accepted from this peer; asked once a connection. An exception ends the connection,
    /// and must be fatal.
    fn admit_urgent(&self, _peer: SocketAddr, _user: &Identity) -> impl Future<Output = Result<(), Exception>> + Send {
        async { Err(Exception::unauthorized(hdfs::exception::ACCESS_CONTROL, "no urgent requests are accepted here")) }
    }

    /// Looks up a token that a client says it has, where tokens are offered. It may wait for a disk: it is called on a
    /// thread of its own.
    fn claim(&self, _identifier: &[u8]) -> Result<Claim, ClaimError> {
        Err(ClaimError::Token { reason: "there are no tokens for this server".into() })
    }

    /// A caller has proved who it is, or need not.
    fn authenticated(&self, _peer: SocketAddr, _method: Method) {}

    /// A caller is refused that did not prove who it is.
    fn unauthenticated(&self, _peer: SocketAddr) {}

    /// One of these said that it has a token, which does not count. `refused` has the token's identifier.
    fn token_refused(&self, _peer: SocketAddr, _refused: &Refused) {}

    /// Whether a node is still taken for what its certificate says. Asked again and again while its connection is open,
    /// which ends if not: a certificate may be revoked.
    fn still_counts(&self, _peer: SocketAddr, _node: &Certified) -> bool {
        true
    }

    /// A connection of this peer has begun. No call of it came yet.
    fn opened(&self, _peer: SocketAddr) {}

    /// The connection of this peer has ended, in whatever way. Calls of it may still be under way.
    fn hung_up(&self, _peer: SocketAddr) {}
}
