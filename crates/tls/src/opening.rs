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

/// A socket of which only so much is read while its handshake lasts.
#[derive(Debug)]
pub struct Socket {
    socket: TcpStream,
    /// `None`: the handshake is over.
    left_len: Option<usize>,
}

impl Socket {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, left_len: Some(HANDSHAKE_LEN_MAX) }
    }

    /// Lifts the limit: from here on whoever reads has limits of his own.
    pub(crate) fn opened(&mut self) {
        self.left_len = None;
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
        if let Some(left_len) = self.left_len {
            let left_len = left_len.checked_sub(buffer.filled().len() - before);
            self.left_len = Some(left_len.ok_or_else(too_long)?);
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
    pub async fn read(socket: TcpStream) -> io::Result<Self> {
        let acceptor = rustls::server::Acceptor::default();
        LazyConfigAcceptor::new(acceptor, Socket::new(socket)).await.map(Self)
    }
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hello({:?})", self.0.io)
    }
}
