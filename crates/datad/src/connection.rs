//! A connection of data transfer that a task serves or has opened: its socket, what protects it, and what came on it
//! and was not consumed yet.
//!
//! What lies between the operations and the peer's bytes goes here, and for threads into
//! [`crate::socket`]: no other code of data transfer knows a TCP connection.

use crate::budget::{Budget, Reservation};
use crate::fronts::Fronts;
use crate::outward::Outward;
use crate::read_buffer::{ReadBuffer, ReadError};
use io::{ThreadQuota, transfer};
use prost::Message;
use sasl::{IDLE_AFTER, Incoming, Outgoing, Protected, Secret};
use security::sasl::transfer::SEND_LEN;
use std::fs::File;
use std::io::Result;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use wire::OpHeader;
use xfer::read::Sender;

/// Bytes that are sealed together: a head and data behind it.
const TOGETHER_LEN: usize = SEND_LEN;
/// The same where there is no memory for so many.
const LITTLE_LEN: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    /// To be sent, and not sealed yet: more belongs to it.
    together: Vec<u8>,
    /// Opened.
    buffer: ReadBuffer,
}

impl Connection {
    pub(crate) fn new(connection: Protected) -> Self {
        let Protected { socket, incoming, outgoing } = connection;
        Self { socket, incoming, outgoing, together: Vec::new(), buffer: ReadBuffer::default() }
    }

    pub(crate) fn plain(socket: TcpStream) -> Self {
        Self::new(Protected::plain(socket))
    }

    /// Of a client on this machine.
    pub(crate) fn local(socket: UnixStream) -> Result<Self> {
        // A stream socket of another family: nothing is asked of it but to send, to receive and to be waited for.
        let socket = std::net::TcpStream::from(OwnedFd::from(socket.into_std()?));
        TcpStream::from_std(socket).map(Self::plain)
    }

    pub(crate) async fn connect(addr: SocketAddr) -> Result<Self> {
        TcpStream::connect(addr).await.map(Self::plain)
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

    /// The connection as another serves it, and what came behind the last message that was asked for.
    pub(crate) fn into_parts(mut self) -> (Protected, Vec<u8>) {
        assert!(self.together.is_empty() && !self.outgoing.is_pending(), "all that was said was sent");
        // What is opened stays where it is counted: whoever has the connection gets it first.
        if self.outgoing.is_plain() {
            self.buffer.put(self.incoming.opened());
            self.incoming.consume(self.incoming.opened().len());
        }
        let Self { socket, incoming, outgoing, buffer, .. } = self;
        (Protected { socket, incoming, outgoing }, buffer.into_rest())
    }

    /// One read of the socket, or of what it brought before; false at its end. If the future is dropped nothing is
    /// lost, but where a long piece was being opened: then the connection has ended.
    async fn fill(&mut self) -> Result<bool> {
        loop {
            let room = self.buffer.room();
            if self.incoming.has_opened() {
                let len = self.incoming.take(room);
                self.buffer.received(len);
                return Ok(true);
            }
            let is_roomy = self.incoming.is_roomy() || self.outgoing.is_roomy() || self.together.capacity() > 0;
            let reading = self.socket.read(self.incoming.room(room)?);
            let len = if is_roomy {
                match tokio::time::timeout(IDLE_AFTER, reading).await {
                    Ok(len) => len?,
                    Err(_elapsed) => {
                        self.rest();
                        continue;
                    }
                }
            } else {
                reading.await?
            };
            if len == 0 {
                return self.incoming.on_end().map(|()| false);
            }
            let in_place = self.incoming.received_beside_others(room, len).await?;
            if in_place > 0 {
                self.buffer.received(in_place);
                return Ok(true);
            }
        }
    }

    /// Nothing was received or sent for a while: gives back what who is idle does not need.
    fn rest(&mut self) {
        self.incoming.rest();
        self.outgoing.rest();
        if self.together.is_empty() {
            self.together = Vec::new();
            self.outgoing.set_beside(0);
        }
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

    /// What an operation asks for, and the memory that it is counted with: that of `fronts` until it is whole.
    pub(crate) async fn operation<M: Message + Default>(
        &mut self,
        fronts: &Arc<Fronts>,
        budget: &Budget,
    ) -> std::result::Result<(M, Option<Reservation>), ReadError> {
        let given_up = Arc::new(Notify::new());
        let (mut coming, mut memory) = (fronts.front(&given_up), None);
        loop {
            if let Some(message) = self.buffer.operation(&mut coming, &mut memory, budget)? {
                return Ok((message, memory));
            }
            tokio::select! {
                more = self.fill_more() => more?,
                () = given_up.notified() => return Err(ReadError::GaveWay),
            }
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
    pub(crate) async fn send_all(&mut self, mut bytes: &[u8], more: bool) -> Result<()> {
        if self.outgoing.is_plain() {
            return transfer::send_all(&self.socket, bytes, more).await;
        }
        while more && !bytes.is_empty() {
            let room_len = self.together_len().min(bytes.len());
            self.together.extend_from_slice(&bytes[..room_len]);
            bytes = &bytes[room_len..];
            self.send_together(false).await?;
        }
        if !more {
            self.send_together(true).await?;
            send_sealed(&self.socket, &mut self.outgoing, bytes, false).await?;
        }
        Ok(())
    }

    /// Sends one byte and descriptors with it, over a Unix socket.
    pub(crate) async fn send_descriptors(&mut self, byte: u8, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let sending = || io::descriptors::send(&self.socket, &[byte], descriptors);
        self.socket.async_io(Interest::WRITABLE, sending).await.map(drop)
    }

    /// One byte of the peer's, whatever it is.
    pub(crate) async fn one_byte(&mut self) -> Result<()> {
        while self.buffer.is_empty() {
            if !self.fill().await? {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.buffer.consume(1);
        Ok(())
    }

    /// Returns once the peer has closed, or has sent something, which is not asked for.
    pub(crate) async fn ended(&mut self) -> Result<()> {
        match self.buffer.is_empty() {
            true => self.fill().await.map(drop),
            false => Ok(()),
        }
    }

    /// Sends bytes, to a peer that takes them before the limit.
    pub(crate) async fn send_within(&mut self, bytes: &[u8], limit: Duration) -> Result<()> {
        tokio::time::timeout(limit, self.send_all(bytes, false)).await?
    }

    /// Sends bytes of a file, waiting for its disk within that disk's quota of threads: without a copy, unless they
    /// have to be sealed.
    pub(crate) async fn sendfile_all(&mut self, file: &File, quota: &ThreadQuota, offset: u64, len: u64) -> Result<()> {
        if self.outgoing.is_plain() {
            return transfer::sendfile_all(&self.socket, file, quota, offset, len).await;
        }
        let (mut offset, end) = (offset, offset + len);
        while offset < end {
            let piece_len = (self.together_len() as u64).min(end - offset);
            transfer::read_behind(file, quota, offset..end, piece_len, &mut self.together).await?;
            offset += piece_len;
            self.send_together(offset == end).await?;
        }
        Ok(())
    }

    /// For so many bytes there is room behind those that are sealed together; for one at least.
    fn together_len(&mut self) -> usize {
        if self.together.capacity() < TOGETHER_LEN {
            let is_counted = self.outgoing.set_beside(TOGETHER_LEN);
            let len = if is_counted { TOGETHER_LEN } else { LITTLE_LEN };
            self.together.reserve_exact(len - self.together.len());
        }
        self.together.capacity().min(TOGETHER_LEN) - self.together.len()
    }

    /// Seals and sends what is there together, if that is as much as there is room for, or `all` of it.
    async fn send_together(&mut self, all: bool) -> Result<()> {
        if all || self.together.len() >= self.together.capacity().min(TOGETHER_LEN) {
            send_sealed(&self.socket, &mut self.outgoing, &self.together, !all).await?;
            self.together.clear();
        }
        Ok(())
    }
}

/// Seals bytes and sends them; `more` follow at once.
async fn send_sealed(socket: &TcpStream, outgoing: &mut Outgoing, mut bytes: &[u8], more: bool) -> Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[outgoing.seal(bytes)?..];
        while outgoing.is_pending() {
            let (pending, more) = (outgoing.pending(), more || !bytes.is_empty());
            let sent = socket.async_io(Interest::WRITABLE, || transfer::send(socket, pending, more)).await?;
            outgoing.on_sent(sent);
        }
    }
    Ok(())
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
        let mut connection = Connection::connect(listener.local_addr().unwrap()).await.unwrap();
        let _peer = listener.accept().await.unwrap();
        let sent = connection.send_within(&vec![0; LONG_LEN], Duration::from_millis(50)).await;
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }
}
