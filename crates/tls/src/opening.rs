//! The first bytes of a connection inside TLS, from an end that nobody knows yet.
//!
//! ```text
//! ClientHello ──▶ Hello ──▶ Credentials::accept ──▶ the other end's certificate ──▶ Stream
//! no work yet     │         keys and signatures                               │    without a limit
//!                 └──────── at most HANDSHAKE_LEN_MAX bytes are read ─────────┘
//! ```
//!
//! Promise: until its handshake is over, a connection holds little memory, and until its ClientHello is whole it costs
//! no asymmetric cryptography.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake, rustls};

/// What a connection may send in its handshake, and behind it in the same reads. A guess: a hello of ours has 200 bytes
/// and a certificate with its authority 1000; rustls alone would take 64 KiB of each connection.
const HANDSHAKE_LEN_MAX: usize = 16 << 10;

/// What has come of a handshake when it is a long one. Those of our own clients and nodes are not: a guess.
const HANDSHAKE_LEN_USUAL: usize = 4 << 10;

/// Told once that a handshake is a long one, before the next of it is read: false if it may not be.
pub type IsLong = Box<dyn FnOnce() -> bool + Send + Sync>;

/// A socket of which only so much is read while its handshake lasts.
pub struct Socket {
    socket: TcpStream,
    /// `None`: the handshake is over.
    handshake: Option<Handshake>,
}

struct Handshake {
    left_len: usize,
    /// `None`: it may be long.
    is_long: Option<IsLong>,
}

impl Handshake {
    /// So much more of it came.
    fn came(&mut self, len: usize) -> io::Result<()> {
        self.left_len = self.left_len.checked_sub(len).ok_or_else(too_long)?;
        if HANDSHAKE_LEN_MAX - self.left_len > HANDSHAKE_LEN_USUAL
            && let Some(is_long) = self.is_long.take()
            && !is_long()
        {
            return Err(io::Error::other("too many long handshakes are under way"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left_len = self.handshake.as_ref().map(|handshake| handshake.left_len);
        f.debug_struct("Socket").field("socket", &self.socket).field("left_len", &left_len).finish_non_exhaustive()
    }
}

impl Socket {
    /// `is_long`: who is told that the handshake is a long one, if anybody is.
    pub(crate) fn new(socket: TcpStream, is_long: Option<IsLong>) -> Self {
        Self { socket, handshake: Some(Handshake { left_len: HANDSHAKE_LEN_MAX, is_long }) }
    }

    /// Lifts the limit: from here on whoever reads has limits of his own.
    pub(crate) fn opened(&mut self) {
        self.handshake = None;
    }

    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.socket.local_addr()
    }

    pub fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.socket.peer_addr()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        if let Some(handshake) = &mut self.handshake {
            handshake.came(buffer.filled().len() - before)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a handshake of more than {HANDSHAKE_LEN_MAX} bytes"))
}

/// A connection whose ClientHello is here.
pub struct Hello(pub(crate) StartHandshake<Socket>);

impl Hello {
    /// `is_long`: whether this handshake may be longer than most are.
    pub async fn read(socket: TcpStream, is_long: IsLong) -> io::Result<Self> {
        let acceptor = rustls::server::Acceptor::default();
        LazyConfigAcceptor::new(acceptor, Socket::new(socket, Some(is_long))).await.map(Self)
    }
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hello({:?})", self.0.io)
    }
}
