//! A client's socket, waited for up to a limit when it takes nothing.

use ::io::{ConnectionPermit, StalledResponse};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

pub(crate) struct Patient<S> {
    socket: S,
    permit: Arc<ConnectionPermit>,
    stall_time_max: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<(Pin<Box<Sleep>>, StalledResponse)>,
}

impl<S> Patient<S> {
    pub(crate) fn new(socket: S, permit: Arc<ConnectionPermit>, stall_time_max: Duration) -> Self {
        Self { socket, permit, stall_time_max, stalled: None }
    }

    /// What came of a write, unless the client has taken nothing for too long.
    fn limit_stall<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let (permit, limit) = (&self.permit, self.stall_time_max);
        let (stalled, _) =
            self.stalled.get_or_insert_with(|| (Box::pin(tokio::time::sleep(limit)), permit.response_stalled()));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.limit_stall(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.limit_stall(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Inside TLS what was taken may stay behind.
        let done = Pin::new(&mut self.socket).poll_flush(context);
        self.limit_stall(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
