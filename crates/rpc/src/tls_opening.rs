//! The first bytes of a connection at a server: plain RPC, or the handshake of TLS around it.
//!
//! Promise: a server without certificates does not look. Handshakes under way are bounded, as each costs processor time
//! before it is known who asks for it, and each has a limit of time with its wait for a place.

use crate::stream::Stream;
use security::node_name::Certified;
use std::io;
use std::time::Duration;
use tls::Credentials;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How a record of TLS begins that has a handshake in it. Hadoop's RPC begins with `hrpc`, HTTP with a letter.
const HANDSHAKE: u8 = 0x16;
/// A guess: all nodes of a store that call again at the same moment have their turn within a second.
pub(crate) const HANDSHAKE_COUNT_MAX: usize = 64;

/// A connection, and the node that the other end proved to be, if it did.
pub(crate) async fn open(
    socket: TcpStream,
    credentials: Option<&Credentials>,
    places: &Semaphore,
    time_max: Duration,
) -> io::Result<(Stream, Option<Certified>)> {
    let Some(credentials) = credentials else { return Ok((Stream::Plain(socket), None)) };
    let opening = async {
        let mut first = [0];
        if socket.peek(&mut first).await? == 0 || first[0] != HANDSHAKE {
            return Ok((Stream::Plain(socket), None));
        }
        let _place = places.acquire().await.map_err(io::Error::other)?;
        let (stream, node) = credentials.accept(socket).await?;
        Ok((Stream::Tls(Box::new(stream)), node))
    };
    timeout(time_max, opening).await.map_err(|_elapsed| io::ErrorKind::TimedOut)?
}
