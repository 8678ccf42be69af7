//! The sockets of a write stream's thread: to the client or the node above, and to the nodes below.
//!
//! Promise: no call waits for the peer, but those that begin a connection.

use crate::admission::Onward;
use crate::outward::Outward;
use sasl::Secret;
use std::io::{Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Of one that was opened here.
    _place: Option<Onward>,
}

impl Socket {
    /// Of a connection that came.
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, _place: None })
    }

    /// Connects; [`Self::begin`] is to follow. Waits.
    pub(crate) fn connect(addr: SocketAddr, limit: Duration) -> Result<Self> {
        TcpStream::connect_timeout(&addr, limit).map(|stream| Self { stream, _place: None })
    }

    /// Puts it behind a handshake, if one is needed. Waits.
    pub(crate) fn protected(self, outward: &Outward, secret: Secret<'_>, limit: Duration) -> Result<Self> {
        Ok(Self { stream: outward.protect_blocking(self.stream, secret, limit)?, ..self })
    }

    /// It keeps this place until it is closed.
    pub(crate) fn holding(self, place: Onward) -> Self {
        Self { _place: Some(place), ..self }
    }

    /// Sends the first bytes on a connection that was opened. Waits until they are sent, and never after that.
    pub(crate) fn begin(&self, first: &[u8], limit: Duration) -> Result<()> {
        self.stream.set_write_timeout(Some(limit))?;
        (&self.stream).write_all(first)?;
        self.stream.set_nonblocking(true)
    }

    pub(crate) fn receive(&self, room: &mut [u8]) -> Result<usize> {
        (&self.stream).read(room)
    }

    /// Sends as much as the socket takes now.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize> {
        io::transfer::send(&self.stream, bytes, false)
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// Nothing is sent any more.
    pub(crate) fn shut_down_sending(&self) {
        let _gone = self.stream.shutdown(Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
