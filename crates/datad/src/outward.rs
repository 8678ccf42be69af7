//! Connections to other nodes, behind a handshake where the store asks for one.

use crate::budget::Budget;
use crate::replicas::Replicas;
use hdfs::proto::TokenProto;
use io::request_connections::{Prepare, Preparing};
use sasl::{Protected, Secret};
use security::sasl::digest::Protection;
use std::io::{Error, ErrorKind, Result};
use std::net::TcpStream as StdTcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use wire::small::SmallWrite;
use xfer::memory::Memory;
use xfer::small::OutgoingRequest;

#[derive(Debug)]
pub(crate) struct Outward {
    /// For the rules of the moment.
    replicas: Arc<Replicas>,
    memory: Budget,
    runtime: Handle,
}

impl Outward {
    /// To be made on the runtime.
    pub(crate) fn new(replicas: Arc<Replicas>, memory: Budget) -> Self {
        Self { replicas, memory, runtime: Handle::current() }
    }

    /// The connection, once the other node has believed `secret`: the token of the block that it is for.
    pub(crate) async fn protect(&self, socket: TcpStream, secret: Secret<'_>) -> Result<Protected> {
        let rules = self.replicas.node.with(|node| node.tokens.rules());
        if rules.protection().is_empty() {
            return Ok(Protected::plain(socket));
        }
        let held =
            [self.memory.take(0).ok_or(ErrorKind::OutOfMemory)?, self.memory.take(0).ok_or(ErrorKind::OutOfMemory)?];
        Ok(sasl::connect(socket, secret, Protection::of(rules.protection()), held).await?)
    }

    /// As [`Self::protect`], for threads. Waits, `limit` at most. `None`: no handshake is needed.
    pub(crate) fn protect_blocking(
        &self,
        socket: &StdTcpStream,
        secret: Secret<'_>,
        limit: Duration,
    ) -> Result<Option<Protected>> {
        if self.replicas.node.with(|node| node.tokens.rules()).protection().is_empty() {
            return Ok(None);
        }
        let socket = socket.try_clone()?;
        socket.set_nonblocking(true)?;
        let shaking_hands = async {
            let protecting = async { self.protect(TcpStream::from_std(socket)?, secret).await };
            tokio::time::timeout(limit, protecting).await.map_err(|_| Error::from(ErrorKind::TimedOut))?
        };
        self.runtime.block_on(shaking_hands).map(Some)
    }
}

/// Small writes share a connection: the first one's token opens it for all.
impl Prepare<OutgoingRequest> for Outward {
    fn prepare<'a>(&'a self, socket: TcpStream, first: &'a OutgoingRequest) -> Preparing<'a> {
        let SmallWrite { token, password, .. } = &first.header;
        Box::pin(async move { self.protect(socket, Secret { identifier: token, password }).await?.pumped(None) })
    }
}

pub(crate) fn secret_of(token: Option<&TokenProto>) -> Secret<'_> {
    token.map_or_else(Secret::default, |token| Secret { identifier: &token.identifier, password: &token.password })
}
