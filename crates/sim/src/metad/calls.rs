//! A call as it comes over a connection, and what a refusal means to those who called.

use super::Metad;
use bytes::Bytes;
use hdfs::{Exception, exception};
use namespace::RetryKey;
use prost::Message;
use rpc::{Call, Identity, Untaken};
use std::net::SocketAddr;
use std::sync::Arc;

/// As who runs the servers. Who may do what, only the users ask (`users`).
const USER: &str = "root";

#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// Ask another member.
    Standby,
    SafeMode,
    LeaseExpired,
    NotFound,
    NoNodes,
    RecoveryInProgress,
    /// By the namespace, for good.
    Namespace,
    /// Another process of this datanode is alive.
    InUse,
    /// Another process has taken this one's place.
    Superseded,
    /// Nobody knows whether it was done.
    Odd(String),
}

pub(crate) type Answer<T> = Result<T, Refused>;

/// Classes by which the namespace refuses.
const DEFINITE: [&str; 14] = [
    exception::FILE_ALREADY_EXISTS,
    exception::PARENT_NOT_DIRECTORY,
    exception::PATH_IS_NOT_EMPTY_DIRECTORY,
    exception::INVALID_PATH,
    exception::ACCESS_CONTROL,
    exception::ALREADY_BEING_CREATED,
    exception::NAME_TOO_LONG,
    exception::DIRECTORY_FULL,
    exception::PATH_IS_NOT_DIRECTORY,
    exception::NAMESPACE_QUOTA_EXCEEDED,
    exception::SPACE_QUOTA_EXCEEDED,
    exception::TYPE_QUOTA_EXCEEDED,
    exception::HADOOP_ILLEGAL_ARGUMENT,
    exception::ILLEGAL_ARGUMENT,
];

impl From<Exception> for Refused {
    fn from(refused: Exception) -> Self {
        match refused.class {
            exception::STANDBY | exception::RETRIABLE => Self::Standby,
            exception::SAFE_MODE => Self::SafeMode,
            exception::LEASE_EXPIRED => Self::LeaseExpired,
            exception::FILE_NOT_FOUND => Self::NotFound,
            exception::RECOVERY_IN_PROGRESS => Self::RecoveryInProgress,
            wire::node::NODE_IN_USE => Self::InUse,
            wire::node::NODE_SUPERSEDED => Self::Superseded,
            wire::node::NODE_REVOKED => Self::Namespace,
            class if DEFINITE.contains(&class) => Self::Namespace,
            _ if refused.message.contains("could only be written to") => Self::NoNodes,
            _ => Self::Odd(refused.to_string()),
        }
    }
}

/// What decodes an answer.
pub(super) trait Answered: Message + Default {}
impl<M: Message + Default> Answered for M {}

impl Metad {
    /// A call of HDFS's protocol for clients.
    pub(super) async fn ask<A: Answered>(
        &self,
        method: &str,
        retry: Option<RetryKey>,
        request: impl Message,
    ) -> Answer<A> {
        self.ask_in(hdfs::protocol::CLIENT, 1, method, retry, request).await
    }

    pub(super) async fn ask_in<A: Answered>(
        &self,
        protocol: &str,
        version: u64,
        method: &str,
        retry: Option<RetryKey>,
        request: impl Message,
    ) -> Answer<A> {
        let peer = ([10, 9, 0, 1], 1000).into();
        self.ask_as(peer, protocol, version, method, retry, request).await
    }

    /// A call of another member. `Err`: the class of the refusal.
    pub(super) async fn pass_on(&self, protocol: &str, method: &str, body: Bytes) -> Result<Bytes, &'static str> {
        let call = call(USER, ([10, 1, 0, 99], 1000).into(), protocol, 1, method, None, body);
        self.server.call(call).await.map_err(|refused| refused.class)
    }

    pub(super) async fn ask_as<A: Answered>(
        &self,
        peer: SocketAddr,
        protocol: &str,
        version: u64,
        method: &str,
        retry: Option<RetryKey>,
        request: impl Message,
    ) -> Answer<A> {
        let bytes = self.pass(peer, protocol, version, method, retry, request.encode_to_vec().into()).await?;
        Ok(A::decode(bytes).expect("a server's answer can be read"))
    }

    pub(super) async fn pass(
        &self,
        peer: SocketAddr,
        protocol: &str,
        version: u64,
        method: &str,
        retry: Option<RetryKey>,
        body: Bytes,
    ) -> Answer<Bytes> {
        Ok(self.server.call(call(USER, peer, protocol, version, method, retry, body)).await?)
    }

    /// A call of HDFS's protocol for clients, by some user: what he is told for good.
    pub(super) async fn pass_as(
        &self,
        user: &str,
        peer: SocketAddr,
        method: &str,
        retry: RetryKey,
        body: Bytes,
    ) -> Answer<Result<Bytes, Exception>> {
        match self.server.call(call(user, peer, hdfs::protocol::CLIENT, 1, method, Some(retry), body)).await {
            Err(refused) if is_passing(&refused) => Err(refused.into()),
            told => Ok(told),
        }
    }
}

/// Another server, or the same one later, says something else; or nobody knows whether it was done.
fn is_passing(refused: &Exception) -> bool {
    match refused.class {
        exception::STANDBY | exception::SAFE_MODE => true,
        // It knows the groups of some users never.
        exception::RETRIABLE => !refused.message.contains("the user database"),
        exception::IO => DOUBTFUL.iter().any(|words| refused.message.contains(words)),
        _ => false,
    }
}

/// How a server says that it cannot go on.
const DOUBTFUL: [&str; 3] = ["this metadata server has stopped", "this metadata server cannot", "decides nothing"];

fn call(
    user: &str,
    peer: SocketAddr,
    protocol: &str,
    version: u64,
    method: &str,
    retry: Option<RetryKey>,
    body: Bytes,
) -> Call {
    Call {
        protocol: protocol.to_owned(),
        method: method.to_owned(),
        version,
        body,
        user: Arc::new(Identity::simple(user, None)),
        client_id: retry.map_or(Bytes::new(), |key| Bytes::copy_from_slice(&key.client)),
        call_id: retry.map_or(-1, |key| key.call),
        retry_count: 0,
        peer,
        is_private: true,
        untaken: Untaken::default(),
    }
}
