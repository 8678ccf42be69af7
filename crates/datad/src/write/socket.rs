//! The sockets of a write stream's thread: to the client or the node above, and to the nodes below.
//!
//! Promise: no call waits for the peer, but those that begin a connection.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

impl Socket {
    /// Of a connection that came.
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    /// Connects; [`Self::begin`] is to follow. Waits.
    pub(super) fn connect(addr: SocketAddr, limit: Duration) -> Result<Self> {
        TcpStream::connect_timeout(&addr, limit).map(Self)
    }

    /// Sends the first bytes on a connection that was opened. Waits until they are sent, and never after that.
    pub(super) fn begin(&self, first: &[u8], limit: Duration) -> Result<()> {
        self.0.set_write_timeout(Some(limit))?;
        (&self.0).write_all(first)?;
        self.0.set_nonblocking(true)
    }

    pub(super) fn receive(&self, room: &mut [u8]) -> Result<usize> {
        (&self.0).read(room)
    }

    /// Sends as much as the socket takes now.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize> {
        io::transfer::send(&self.0, bytes, false)
    }

    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    /// Nothing is sent any more.
    pub(super) fn shut_down_sending(&self) {
        let _gone = self.0.shutdown(Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
