//! How servers are reached: at their addresses, or all of them through one gateway.
//!
//! ```text
//! client ──▶ server                                        no gateway
//! client ── preface: server · what follows ──▶ gateway ── what follows ──▶ server
//! ```
//!
//! The gateway says nothing of its own, so what follows the preface does not wait: nothing takes a round trip more. One
//! that lets nobody through to this server closes the connection.

use crate::socket::{self, SocketOptions};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first bytes of a preface. No protocol of Hadoop begins so, nor HTTP or TLS.
const MAGIC: [u8; 4] = *b"LVGW";
const VERSION: u8 = 1;

/// Which server a connection through a gateway is for: its address, host:port, as the store knows it.
///
/// ```text
/// "LVGW" · version u8 = 1 · length u8 · address
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preface {
    pub target: String,
}

impl Preface {
    /// `None`: no address is so long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let len = u8::try_from(self.target.len()).ok().filter(|len| *len > 0)?;
        Some([&MAGIC[..], &[VERSION, len], self.target.as_bytes()].concat())
    }

    /// Takes a preface from the beginning of a connection, and not a byte of what follows. An error says what there is
    /// instead.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut head = [0; 6];
        from.read_exact(&mut head).await?;
        let [magic @ .., version, len] = head;
        if magic != MAGIC {
            return Err(wrong("the connection does not begin as one through a gateway"));
        }
        if version != VERSION || len == 0 {
            return Err(wrong("the connection is of a version that this gateway does not know"));
        }
        let mut target = vec![0; len.into()];
        from.read_exact(&mut target).await?;
        let target = String::from_utf8(target).map_err(|_| wrong("the address is no text"))?;
        Ok(Self { target })
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Opens connections to servers. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    gateway: Option<Arc<str>>,
    /// In place of what is measured.
    assumed: Option<Duration>,
    /// The shortest round trip of all connections, in microseconds. 0: there was none yet.
    measured: Arc<AtomicU64>,
}

impl Dialer {
    /// `gateway`: host:port. `None`: servers are reached directly.
    pub fn new(gateway: Option<&str>) -> Self {
        Self { gateway: gateway.map(Arc::from), ..Self::default() }
    }

    /// The same, which takes servers to be as far away as this, if it is told so, and does not measure.
    #[must_use]
    pub fn as_far_as(self, assumed: Option<Duration>) -> Self {
        Self { assumed, ..self }
    }

    /// A round trip to the nearest server there was a connection to. Zero before the first.
    pub fn round_trip(&self) -> Duration {
        self.assumed.unwrap_or_else(|| Duration::from_micros(self.measured.load(Ordering::Relaxed)))
    }

    fn note(&self, round_trip: Duration) {
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX).max(1);
        let shorter = |known| (known == 0 || micros < known).then_some(micros);
        // Refused if the one that is known is shorter.
        let _ = self.measured.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    /// A connection to the server at `addr`, host:port.
    pub async fn connect(&self, addr: &str, options: &SocketOptions) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.gateway.as_deref().unwrap_or(addr)).await?;
        socket::apply(&stream, options)?;
        socket::round_trip(&stream).into_iter().for_each(|round_trip| self.note(round_trip));
        if self.gateway.is_some() {
            let preface = Preface { target: addr.to_owned() }.encode();
            let preface = preface.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a long address"))?;
            // Nobody answers it: what follows is not held up.
            stream.write_all(&preface).await?;
        }
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_preface_is_read_and_nothing_behind_it() {
        let bytes = [b"LVGW\x01\x0ahost:09866".as_slice(), b"rest"].concat();
        let mut from = bytes.as_slice();
        let preface = Preface::read(&mut from).await.unwrap();
        assert_eq!((preface.target.as_str(), from), ("host:09866", &b"rest"[..]));
        assert_eq!(preface.encode().unwrap(), bytes[..16]);
    }

    #[test]
    fn the_nearest_server_says_how_far_away_the_store_is() {
        let dialer = Dialer::default();
        assert_eq!(dialer.round_trip(), Duration::ZERO);
        for (measured, known) in [(240, 240), (22, 22), (72, 22)] {
            dialer.clone().note(Duration::from_millis(measured));
            assert_eq!(dialer.round_trip(), Duration::from_millis(known));
        }
        let told = dialer.as_far_as(Some(Duration::from_millis(300)));
        assert_eq!(told.round_trip(), Duration::from_millis(300));
    }

    #[tokio::test]
    async fn what_is_no_preface_is_refused() {
        for bytes in
            [&b"hrpc\x09\x00\x00"[..], b"GET / HTTP/1.1", b"LVGW\x02\x01a", b"LVGW\x01\x00", b"LVGW\x01\x02\xff\xff"]
        {
            assert_eq!(Preface::read(&mut &*bytes).await.unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        assert_eq!(Preface::read(&mut &b"LVGW\x01\x09ab"[..]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(Preface { target: "a".repeat(256) }.encode(), None);
    }
}
