//! A connection of data transfer that a task serves or has opened: its socket, and what came on it and was not consumed
//! yet.
//!
//! What lies between the operations and the peer's bytes goes here, and for threads of write streams into
//! [`crate::socket`]: no other code of data transfer knows a TCP connection.

use crate::budget::{Budget, Reservation};
use crate::outward::Outward;
use crate::read_buffer::{ReadBuffer, ReadError};
use io::{ThreadQuota, transfer};
use prost::Message;
use sasl::Secret;
use std::fs::File;
use std::io::Result;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use wire::OpHeader;
use xfer::read::Sender;

#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    buffer: ReadBuffer,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, buffer: ReadBuffer::default() }
    }

    /// `came`: what came on it already.
    pub(crate) fn having(socket: TcpStream, came: &[u8]) -> Self {
        let mut buffer = ReadBuffer::default();
        buffer.put(came);
        Self { socket, buffer }
    }

    pub(crate) async fn connect(addr: SocketAddr) -> Result<Self> {
        TcpStream::connect(addr).await.map(Self::new)
    }

    /// Behind a handshake with the other node, if one is needed. Nothing has been said on it.
    pub(crate) async fn protected(self, outward: &Outward, secret: Secret<'_>) -> Result<Self> {
        outward.protect(self.socket, secret).await.map(Self::new)
    }

    /// Whether it begins with a handshake. `None`: the peer closed before.
    pub(crate) async fn begins_with_handshake(&mut self) -> Result<Option<bool>> {
        loop {
            if let Some(begins) = sasl::is_handshake(self.buffer.bytes()) {
                return Ok(Some(begins));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The socket, and what came behind the last message that was asked for.
    pub(crate) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.socket, self.buffer.into_rest())
    }

    /// One read of the socket; false at its end.
    async fn fill(&mut self) -> Result<bool> {
        let len = self.socket.read(self.buffer.room()).await?;
        self.buffer.received(len);
        Ok(len > 0)
    }

    /// One read of a socket whose peer owes something.
    async fn fill_more(&mut self) -> std::result::Result<(), ReadError> {
        if self.fill().await? { Ok(()) } else { Err(ReadError::Torn) }
    }

    /// The header of the next op; `None` if the peer closed instead. Nothing is lost if the future is dropped.
    pub(crate) async fn op_header(&mut self) -> std::result::Result<Option<OpHeader>, ReadError> {
        loop {
            if let Some(header) = self.buffer.op_header()? {
                return Ok(Some(header));
            }
            if !self.fill().await? {
                return if self.buffer.is_empty() { Ok(None) } else { Err(ReadError::Torn) };
            }
        }
    }

    /// What an operation asks for, and the memory that it is counted with.
    pub(crate) async fn operation<M: Message + Default>(
        &mut self,
        budget: &Budget,
    ) -> std::result::Result<(M, Option<Reservation>), ReadError> {
        let mut memory = None;
        loop {
            if let Some(message) = self.buffer.operation(&mut memory, budget)? {
                return Ok((message, memory));
            }
            self.fill_more().await?;
        }
    }

    /// Gives `sender` what comes, until it has heard the peer's last word.
    pub(crate) async fn last_word(&mut self, sender: &mut Sender) -> std::result::Result<(), ReadError> {
        while !self.buffer.last_word(sender)? {
            self.fill_more().await?;
        }
        Ok(())
    }

    /// Sends bytes; `more` follow at once.
    pub(crate) async fn send_all(&self, bytes: &[u8], more: bool) -> Result<()> {
        transfer::send_all(&self.socket, bytes, more).await
    }

    /// Sends bytes, to a peer that takes them before the limit.
    pub(crate) async fn send_within(&self, bytes: &[u8], limit: Duration) -> Result<()> {
        tokio::time::timeout(limit, self.send_all(bytes, false)).await?
    }

    /// Sends bytes of a file, waiting for its disk within that disk's quota of threads.
    pub(crate) async fn sendfile_all(&self, file: &File, quota: &ThreadQuota, offset: u64, len: u64) -> Result<()> {
        transfer::sendfile_all(&self.socket, file, quota, offset, len).await
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// More than two kernels hold.
    const LONG_LEN: usize = 64 << 20;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = Connection::connect(listener.local_addr().unwrap()).await.unwrap();
        let _peer = listener.accept().await.unwrap();
        let sent = connection.send_within(&vec![0; LONG_LEN], Duration::from_millis(50)).await;
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }
}
