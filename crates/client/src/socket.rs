//! The one place that names a socket of data transfer. What goes over it is the business of machines in `xfer`.

use crate::located::Node;
use ::io::dial::Dialer;
use ::io::socket::SocketOptions;
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A connection to a datanode.
///
/// A process that was forked has the descriptors of its parent, the one through which the runtime waits among them. To
/// take a socket out of that one would deafen the parent, so the child leaves all sockets as they are.
#[derive(Debug)]
pub(crate) struct Socket {
    /// There until this is dropped.
    stream: Option<TcpStream>,
    process: u32,
}

impl Socket {
    pub(crate) async fn connect(node: &Node, dialer: &Dialer) -> io::Result<Self> {
        let stream = dialer.connect(&node.addr, &SocketOptions::default()).await?;
        Ok(Self { stream: Some(stream), process: std::process::id() })
    }

    /// To a datanode on this machine.
    pub(crate) async fn connect_local(path: &str) -> io::Result<Self> {
        let socket = UnixStream::connect(path).await?.into_std()?;
        // A stream socket of another family: nothing is asked of it but to send, to receive and to be waited for.
        let stream = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(socket)))?;
        Ok(Self { stream: Some(stream), process: std::process::id() })
    }

    /// What operations speak over, in place of this.
    pub(crate) async fn behind(
        mut self,
        protect: impl AsyncFnOnce(TcpStream) -> io::Result<TcpStream>,
    ) -> io::Result<Self> {
        let stream = self.stream.take().expect("it is taken when this is dropped");
        self.stream = Some(protect(stream).await?);
        Ok(self)
    }

    /// Nothing has come on it, not even its end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn stream(&self) -> &TcpStream {
        self.stream.as_ref().expect("it is taken when this is dropped")
    }

    pub(crate) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream().try_read(bytes)
    }

    pub(crate) fn try_read_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.stream().try_read_vectored(parts)
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream().try_write(bytes)
    }

    /// On an error, or when dropped half-way, the connection is torn and of no more use.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable().await?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Some bytes, and the descriptors that come with them.
    pub(crate) async fn receive(&self, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        self.stream()
            .async_io(Interest::READABLE, || ::io::descriptors::receive(self.stream(), bytes, descriptors))
            .await
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream().readable().await
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream().writable().await
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.stream.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    /// What a child drops stays open for its parent.
    #[tokio::test]
    async fn a_socket_is_closed_by_the_process_that_made_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string().into();
        let node = Node { addr, ..Node::default() };
        for (distance, is_closed) in [(0, true), (1, false)] {
            let mut socket = Socket::connect(&node, &Dialer::default()).await.unwrap();
            let (mut peer, _) = listener.accept().await.unwrap();
            socket.process += distance;
            drop(socket);
            let ended = tokio::time::timeout(Duration::from_millis(50), peer.read(&mut [0])).await;
            assert_eq!(ended.is_ok(), is_closed);
        }
    }
}
