//! Where connections of data transfer come from: over the network, or from this machine over a Unix socket.

use crate::connection::Connection;
use crate::error::StartError;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::{TcpListener, UnixListener};

/// What a configured path has for the port of data transfer, as in HDFS's configurations.
const PORT: &str = "_PORT";

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Net(SocketAddr),
    /// A process on this machine: its bytes leave the kernel for nobody else, so they need no protection.
    Local,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(addr) => addr.fmt(f),
            Self::Local => f.write_str("this machine"),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Listener {
    Net(TcpListener),
    Local(LocalSocket),
}

impl Listener {
    pub(crate) async fn accept(&self) -> std::io::Result<(Connection, Peer)> {
        match self {
            Self::Net(listener) => {
                listener.accept().await.map(|(socket, peer)| (Connection::plain(socket), Peer::Net(peer)))
            }
            Self::Local(socket) => Ok((Connection::local(socket.listener.accept().await?.0)?, Peer::Local)),
        }
    }
}

/// A socket that clients find at its path until this is dropped.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: String,
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = self.path, %error, "a socket stays where it was");
        }
    }
}

impl LocalSocket {
    pub(crate) fn bind(path: &Path, port: u16) -> Result<Self, StartError> {
        let text = path.to_string_lossy().replace(PORT, &port.to_string());
        let refused = |source| StartError::DomainSocket { path: text.clone(), source };
        let path = std::path::absolute(&text).map_err(refused)?;
        let listener = io::socket::listen_at(&path).map_err(refused)?;
        let listener = UnixListener::from_std(listener).map_err(refused)?;
        Ok(Self { listener, path: path.to_string_lossy().into_owned() })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}
