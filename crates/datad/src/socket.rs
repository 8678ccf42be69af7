//! The connections of threads: of write streams, to the client or the node above and to the nodes below, and of copies,
//! to the node that is read. What protects a connection is done here.
//!
//! Promise: once [`Socket::begin`] has begun a connection, or if it came, no call waits for the peer. poll(2) tells
//! nothing of bytes that are opened already, nor of sealed ones that the kernel did not take: whoever polls asks
//! [`Socket::has_opened`] and [`Socket::is_pending`] first.

use crate::admission::Onward;
use crate::outward::Outward;
use sasl::{Incoming, Outgoing, Protected, Secret};
use std::io::{ErrorKind, IoSliceMut, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reads of one call: whoever polls is to look after its time as well. A piece of JDK's takes one, the longest more
/// than one call.
const READ_COUNT_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// As [`Self::set_low_water`] left it.
    low_water: AtomicUsize,
    incoming: Mutex<Incoming>,
    /// Locked by itself: keepalives are sent by another thread than the one that receives.
    outgoing: Mutex<Outgoing>,
    /// Of one that was opened here.
    _place: Option<Onward>,
}

impl Socket {
    /// Of a connection that came.
    pub(crate) fn new(connection: Protected) -> Result<Self> {
        let Protected { socket, incoming, outgoing } = connection;
        let stream = socket.into_std()?;
        stream.set_nonblocking(true)?;
        Ok(Self::of(stream, incoming, outgoing))
    }

    /// Connects; [`Self::begin`] is to follow. Waits.
    pub(crate) fn connect(addr: SocketAddr, limit: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, limit)?;
        Ok(Self::of(stream, Incoming::plain(), Outgoing::plain()))
    }

    fn of(stream: TcpStream, incoming: Incoming, outgoing: Outgoing) -> Self {
        let (incoming, outgoing) = (Mutex::new(incoming), Mutex::new(outgoing));
        Self { stream, low_water: AtomicUsize::new(1), incoming, outgoing, _place: None }
    }

    /// Puts it behind a handshake, if one is needed. Waits.
    pub(crate) fn protected(self, outward: &Outward, secret: Secret<'_>, limit: Duration) -> Result<Self> {
        let Some(connection) = outward.protect_blocking(&self.stream, secret, limit)? else { return Ok(self) };
        let protected = Self::new(connection)?;
        protected.stream.set_nonblocking(false)?;
        Ok(Self { _place: self._place, ..protected })
    }

    /// It keeps this place until it is closed.
    pub(crate) fn holding(self, place: Onward) -> Self {
        Self { _place: Some(place), ..self }
    }

    /// Sends the first bytes on a connection that was opened. Waits until they are sent, and never after that.
    pub(crate) fn begin(&self, first: &[u8], limit: Duration) -> Result<()> {
        self.stream.set_write_timeout(Some(limit))?;
        self.send_all(first)?;
        self.stream.set_nonblocking(true)
    }

    /// The connection stays one that waits: so long at most, each time.
    pub(crate) fn set_limits(&self, limit: Duration) -> Result<()> {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))
    }

    /// Sends all bytes on a connection that waits.
    pub(crate) fn send_all(&self, mut bytes: &[u8]) -> Result<()> {
        let mut outgoing = self.outgoing();
        if outgoing.is_plain() {
            return (&self.stream).write_all(bytes);
        }
        while !bytes.is_empty() {
            bytes = &bytes[outgoing.seal(bytes)?..];
            self.flush_locked(&mut outgoing)?;
        }
        Ok(())
    }

    /// From how many bytes on poll(2) calls it readable; its end always counts. One thread alone may ask for it.
    pub(crate) fn set_low_water(&self, len: usize) {
        if self.low_water.swap(len, Ordering::Relaxed) != len {
            // It cannot fail on a connection; and whoever waits has a limit.
            let _unlikely = io::socket::set_low_water(&self.stream, len);
        }
    }

    /// Bytes that came, as many as are here and fit; 0 at the end.
    pub(crate) fn receive(&self, room: &mut [u8]) -> Result<usize> {
        let room_len = room.len();
        self.receive_while(room, |len| len < room_len)
    }

    /// Reads the socket while more is wanted, as long as it has some.
    fn receive_while(&self, room: &mut [u8], wants_more: impl Fn(usize) -> bool) -> Result<usize> {
        let incoming = &mut *self.incoming();
        let mut len = incoming.take(room);
        for _ in 0..READ_COUNT_MAX {
            if !wants_more(len) {
                break;
            }
            match self.read(incoming, &mut room[len..]) {
                Ok(Some((opened, goes_on))) => {
                    len += opened;
                    if !goes_on {
                        break;
                    }
                }
                Ok(None) if len == 0 => return Ok(0),
                Err(error) if len == 0 => return Err(error),
                // Bytes came before that: the next call hears of it.
                Ok(None) | Err(_) => break,
            }
        }
        if len == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    /// One read of the socket: how many bytes of `room` are there now, and whether the socket may have more. `None`: it
    /// has ended.
    fn read(&self, incoming: &mut Incoming, room: &mut [u8]) -> Result<Option<(usize, bool)>> {
        let raw = incoming.room(room)?;
        let raw_len = raw.len();
        let came = (&self.stream).read(raw)?;
        if came == 0 {
            return incoming.on_end().map(|()| None);
        }
        let opened = match incoming.received(room, came)? {
            0 => incoming.take(room),
            in_place => in_place,
        };
        Ok(Some((opened, came == raw_len)))
    }

    /// Receives on a connection that waits, into two places, the first one first: whatever comes next. `WouldBlock`: it
    /// was the middle of a piece, or nothing within the limit.
    pub(crate) fn receive_vectored(&self, first: &mut [u8], second: &mut [u8]) -> Result<usize> {
        let incoming = self.incoming();
        if self.outgoing().is_plain() && !incoming.has_opened() {
            return (&self.stream).read_vectored(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]);
        }
        drop(incoming);
        self.receive_while(if first.is_empty() { second } else { first }, |len| len == 0)
    }

    /// Sends as much as the socket takes now, and says how many bytes need no further call: of a protected connection
    /// some of them may be pending here.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize> {
        let mut outgoing = self.outgoing();
        if outgoing.is_plain() {
            return io::transfer::send(&self.stream, bytes, false);
        }
        self.flush_locked(&mut outgoing)?;
        let len = outgoing.seal(bytes)?;
        match self.flush_locked(&mut outgoing) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            Ok(()) | Err(_) => Ok(len),
        }
    }

    /// Sends what is pending. `WouldBlock`: some of it still is.
    pub(crate) fn flush(&self) -> Result<()> {
        self.flush_locked(&mut self.outgoing())
    }

    fn flush_locked(&self, outgoing: &mut Outgoing) -> Result<()> {
        while outgoing.is_pending() {
            match io::transfer::send(&self.stream, outgoing.pending(), false) {
                Ok(len) => outgoing.on_sent(len),
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        outgoing.abandon();
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Bytes were sealed that the kernel did not take: to be flushed as soon as it takes more.
    pub(crate) fn is_pending(&self) -> bool {
        self.outgoing().is_pending()
    }

    /// Bytes are here already, whether the kernel has some or not.
    pub(crate) fn has_opened(&self) -> bool {
        self.incoming().has_opened()
    }

    /// More memory is held than who is idle needs.
    pub(crate) fn is_roomy(&self) -> bool {
        self.incoming().is_roomy() || self.outgoing().is_roomy()
    }

    /// Nothing was received or sent for a while: gives that back.
    pub(crate) fn rest(&self) {
        self.incoming().rest();
        self.outgoing().rest();
    }

    fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// Nothing is sent any more.
    pub(crate) fn shut_down_sending(&self) {
        let _gone = self.stream.shutdown(Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::poll::{Watch, poll};
    use sasl::Uncounted;
    use security::block_token::{Grant, Mode, Modes, Signer};
    use security::keys::{KeyId, KeyRing, Lifetimes};
    use security::sasl::digest::{Protection, Qop};
    use security::sasl::transfer::{KeyBits, Secrets, Settings};
    use security::secret::{SECRET_LEN, Secret as Key};
    use tokio::net::{TcpListener, TcpStream as AsyncStream};
    use types::{InodeId, Millis};

    const QOPS: [Qop; 3] = [Qop::Auth, Qop::Integrity, Qop::Privacy];

    /// Both ends, behind a handshake.
    async fn pair(qop: Qop) -> (Socket, Socket) {
        let now = Millis(1_000);
        let ring =
            KeyRing::new(now, Lifetimes::BLOCK_TOKENS, KeyId(1), [1, 2].map(|byte| Key::new([byte; SECRET_LEN])));
        let grant = Grant { user: "ada", file: InodeId(16_400), modes: Modes::of(&[Mode::Read]), block: None };
        let token = Signer::new(0).sign(now, &ring, grant).unwrap();
        let (identifier, password) = (token.identifier(None), token.password());
        let secret = Secret { identifier: &identifier, password: password.bytes() };
        let held = || [(); 2].map(|()| Uncounted::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let accepting = async {
            let (socket, _) = listener.accept().await.unwrap();
            let settings = Settings { protection: Protection::of(&[qop]), aes: Some(KeyBits::B128) };
            let secrets = Secrets { now, keys: ring.keys(), pool: "BP-1" };
            sasl::accept(socket, Vec::new(), settings, |user| secrets.claim(user), held()).await.unwrap()
        };
        let dialling = async {
            let socket = AsyncStream::connect(listener.local_addr().unwrap()).await.unwrap();
            sasl::connect(socket, secret, Protection::of(&[qop]), held()).await.unwrap()
        };
        let (accepted, dialled) = tokio::join!(accepting, dialling);
        (Socket::new(dialled).unwrap(), Socket::new(accepted.connection).unwrap())
    }

    fn would_block<T: Default>(result: Result<T>) -> (T, bool) {
        match result {
            Ok(done) => (done, false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => (T::default(), true),
            Err(error) => panic!("{error}"),
        }
    }

    /// A peer takes nothing for a while. Nothing waits for it, no more is kept than was sealed at once, and all of it
    /// leaves in its order.
    #[tokio::test]
    async fn what_the_kernel_does_not_take_is_pending_and_leaves_in_its_order() {
        for qop in QOPS {
            let (near, far) = pair(qop).await;
            let bytes: Vec<u8> = (0..40_000_000).map(|at| (at * 7 + at / 251) as u8).collect();
            let mut sent = 0;
            loop {
                let (len, is_full) = would_block(near.send(&bytes[sent..]));
                sent += len;
                if is_full {
                    break;
                }
            }
            assert_eq!(near.is_pending(), qop != Qop::Auth, "{qop:?}: {sent} bytes");
            assert!(sent < bytes.len());
            let bytes = &bytes[..bytes.len().min(sent + 1_000_000)];
            let (mut got, mut room) = (Vec::new(), vec![0; 50_000]);
            while got.len() < bytes.len() {
                let (len, is_empty) = would_block(far.receive(&mut room));
                got.extend_from_slice(&room[..len]);
                sent += would_block(near.send(&bytes[sent..])).0;
                if is_empty {
                    let reads = Watch { fd: far.as_fd(), read: true, write: false };
                    let writes = Watch { fd: near.as_fd(), read: false, write: near.is_pending() };
                    poll(&[reads, writes], Some(Duration::from_secs(20))).unwrap();
                }
            }
            assert!(got == bytes && sent == bytes.len() && !near.is_pending(), "{qop:?}");
        }
    }

    #[tokio::test]
    async fn opened_bytes_come_first_and_the_end_behind_them() {
        for qop in QOPS {
            let (near, far) = pair(qop).await;
            assert_eq!(near.send(&[7; 1000]).unwrap(), 1000);
            near.shut_down_sending();
            drop(near);
            let mut room = [0; 600];
            let ready = Watch { fd: far.as_fd(), read: true, write: false };
            poll(&[ready], Some(Duration::from_secs(20))).unwrap();
            assert_eq!(far.receive(&mut room).unwrap(), 600);
            assert_eq!(far.has_opened(), qop == Qop::Integrity, "{qop:?}");
            assert_eq!(far.receive(&mut room).unwrap(), 400);
            assert_eq!(far.receive(&mut room).unwrap(), 0, "{qop:?}");
        }
    }

    /// Nobody is there: nothing is pending that could be waited for.
    #[tokio::test]
    async fn a_peer_that_left_has_nothing_pending() {
        for qop in QOPS {
            let (near, far) = pair(qop).await;
            drop(far);
            let sent = (0..10_000).find_map(|_| near.send(&[7; 100_000]).err()).expect("nobody reads");
            assert_ne!(sent.kind(), ErrorKind::WouldBlock);
            assert!(!near.is_pending() && near.flush().is_ok(), "{qop:?}");
        }
    }
}
