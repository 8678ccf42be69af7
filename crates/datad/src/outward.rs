//! Connections to other nodes, behind a handshake where the store asks for one.

use crate::budget::Budget;
use crate::replicas::Replicas;
use hdfs::proto::TokenProto;
use io::request_connections::{Prepare, Preparing};
use sasl::Secret;
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

    /// What operations speak over, once the other node has believed `secret`: the token of the block that the
    /// connection is for.
    pub(crate) async fn protect(&self, socket: TcpStream, secret: Secret<'_>) -> Result<TcpStream> {
        let rules = self.replicas.node.with(|node| node.tokens.rules());
        if rules.protection().is_empty() {
            return Ok(socket);
        }
        let held = self.memory.take(0).ok_or(ErrorKind::OutOfMemory)?;
        Ok(sasl::connect(socket, secret, Protection::of(rules.protection()), held, None).await?)
    }

    /// As [`Self::protect`], for threads. Waits, `limit` at most.
    pub(crate) fn protect_blocking(
        &self,
        socket: StdTcpStream,
        secret: Secret<'_>,
        limit: Duration,
    ) -> Result<StdTcpStream> {
        if self.replicas.node.with(|node| node.tokens.rules()).protection().is_empty() {
            return Ok(socket);
        }
        socket.set_nonblocking(true)?;
        let shaking_hands = async {
            let protecting = async { self.protect(TcpStream::from_std(socket)?, secret).await };
            tokio::time::timeout(limit, protecting).await.map_err(|_| Error::from(ErrorKind::TimedOut))?
        };
        let socket = self.runtime.block_on(shaking_hands)?.into_std()?;
        socket.set_nonblocking(false)?;
        Ok(socket)
    }
}

/// Small writes share a connection: the first one's token opens it for all.
impl Prepare<OutgoingRequest> for Outward {
    fn prepare<'a>(&'a self, socket: TcpStream, first: &'a OutgoingRequest) -> Preparing<'a> {
        let SmallWrite { token, password, .. } = &first.header;
        Box::pin(self.protect(socket, Secret { identifier: token, password }))
    }
}

pub(crate) fn secret_of(token: Option<&TokenProto>) -> Secret<'_> {
    token.map_or_else(Secret::default, |token| Secret { identifier: &token.identifier, password: &token.password })
}
