//! The one place that names a socket of data transfer. What goes over it is the business of machines in `xfer`.

use crate::located::Node;
use ::io::dial::Dialer;
use ::io::socket::SocketOptions;
use std::io::{self, IoSliceMut};
use tokio::net::TcpStream;

/// A connection to a datanode.
///
/// A process that was forked has the descriptors of its parent, the one through which the runtime waits among them. To
/// take a socket out of that one would deafen the parent, so the child leaves all sockets as they are.
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

    /// What operations speak over, in place of this.
    pub(crate) async fn behind(
        mut self,
        protect: impl AsyncFnOnce(TcpStream) -> io::Result<TcpStream>,
    ) -> io::Result<Self> {
        let stream = self.stream.take().expect("it is taken when this is dropped");
        self.stream = Some(protect(stream).await?);
        Ok(self)
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
