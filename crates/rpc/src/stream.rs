//! A connection as it is, or inside TLS, and its two directions.
//!
//! Promise: a connection without TLS costs no more than its socket.

use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, tcp};

/// See the module.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<tls::Stream>),
}

/// What comes.
pub(crate) enum Reading<'a> {
    Plain(tcp::ReadHalf<'a>),
    Tls(tokio::io::ReadHalf<&'a mut tls::Stream>),
}

/// What goes. Inside TLS something may stay behind until it is flushed.
pub(crate) enum Writing<'a> {
    Plain(tcp::WriteHalf<'a>),
    Tls(tokio::io::WriteHalf<&'a mut tls::Stream>),
}

impl Stream {
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// What the other end has shown, if it has.
    pub(crate) fn shown(&self) -> Option<tls::Shown> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => tls::Shown::of(stream),
        }
    }

    pub(crate) fn split(&mut self) -> (Reading<'_>, Writing<'_>) {
        match self {
            Self::Plain(socket) => {
                let (reading, writing) = socket.split();
                (Reading::Plain(reading), Writing::Plain(writing))
            }
            Self::Tls(stream) => {
                let (reading, writing) = tokio::io::split(&mut **stream);
                (Reading::Tls(reading), Writing::Tls(writing))
            }
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(socket) => socket.local_addr(),
            Self::Tls(stream) => stream.get_ref().0.local_addr(),
        }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(socket) => socket.peer_addr(),
            Self::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for Reading<'_> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(reading) => Pin::new(reading).poll_read(context, buffer),
            Self::Tls(reading) => Pin::new(reading).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Writing<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(writing) => Pin::new(writing).poll_write(context, bytes),
            Self::Tls(writing) => Pin::new(writing).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(writing) => Pin::new(writing).poll_write_vectored(context, pieces),
            Self::Tls(writing) => Pin::new(writing).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(writing) => writing.is_write_vectored(),
            Self::Tls(writing) => writing.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(writing) => Pin::new(writing).poll_flush(context),
            Self::Tls(writing) => Pin::new(writing).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(writing) => Pin::new(writing).poll_shutdown(context),
            Self::Tls(writing) => Pin::new(writing).poll_shutdown(context),
        }
    }
}
