//! One connection to a datanode, and the bytes that have come on it but were not asked for yet.

use crate::located::Node;
use crate::options::Options;
use crate::protection::not_connected;
use crate::socket::Socket;
use io::Clock;
use prost::Message;
use std::io::{self as std_io, ErrorKind, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;
use wire::delimited;
use xfer::answer::{Answered, Awaiting};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::ranges::{self, Dests};
use xfer::read::{Extent, Range, Receiver, Room};

/// Bytes asked of the kernel with an answer.
const FRONT_LEN: usize = 8 << 10;
/// The same, of a message that is long.
const LONG_LEN: usize = 1 << 20;
/// Reads in a row that found something: then whoever polls this task is to see to others, and to its time limits. A
/// peer that floods could have the task for itself, as tokio counts no reads of this kind. A guess: some MiB.
const READ_COUNT_MAX: u32 = 64;

pub(crate) struct Connection {
    socket: Socket,
    /// What came behind the last message. While a [`Receiver`] reads, it has this.
    front: Front,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    addr: Arc<str>,
    /// In a row.
    read_count: u32,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection to {}", self.addr)
    }
}

impl Connection {
    /// `dialling`: a socket to the node.
    pub(crate) async fn connect(
        node: &Node,
        options: &Options,
        dialling: impl Future<Output = std::io::Result<Socket>>,
    ) -> Result<Self, Fault> {
        let connecting = tokio::time::timeout(options.connect_timeout, dialling).await;
        let socket = connecting.map_err(|_| Fault::Silent)?.map_err(|error| not_connected(&error))?;
        let (clock, addr) = (Arc::clone(&options.clock), Arc::clone(&node.addr));
        Ok(Self { socket, front: Front::default(), timeout: options.timeout, clock, addr, read_count: 0 })
    }

    pub(crate) fn addr(&self) -> &Arc<str> {
        &self.addr
    }

    /// How long the node may be silent from now on.
    pub(crate) fn allow(&mut self, silence: Duration) {
        self.timeout = silence;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        tokio::time::timeout(self.timeout, self.socket.write_all(bytes))
            .await
            .map_err(|_| Fault::Silent)?
            .map_err(broken)
    }

    /// The answer that every op gets first. What comes behind it stays in front of later reads. A node that says again
    /// and again that it is still at it gets no more time for that.
    pub(crate) async fn receive_answer(&mut self) -> Result<Answered, Fault> {
        tokio::time::timeout(self.timeout, self.next_answer()).await.map_err(|_| Fault::Silent)?
    }

    async fn next_answer(&mut self) -> Result<Answered, Fault> {
        let mut awaiting = Awaiting::default();
        loop {
            let (consumed, answer) = awaiting.on_bytes(self.front.bytes())?;
            self.front.consume(consumed);
            if let Some(answer) = answer {
                return Ok(answer?);
            }
            match try_read(&self.socket, &mut [], self.front.room(FRONT_LEN))? {
                Some(0) => return Err(Fault::closed()),
                Some(len) => {
                    self.front.received(len);
                    self.let_others().await;
                }
                None => self.socket.readable().await.map_err(broken)?,
            }
        }
    }

    /// A message behind its length, which may be long.
    pub(crate) async fn receive_message<M: Message + Default>(
        &mut self,
        what: &'static str,
        len_max: usize,
    ) -> Result<M, Fault> {
        loop {
            if let Some((message, len)) = delimited::split(self.front.bytes(), what, len_max)? {
                let message = delimited::decode(message, what)?;
                self.front.consume(len);
                self.front.give_back();
                return Ok(message);
            }
            // As much as has come: who only says that much will come gets no memory for it.
            let room = self.front.bytes().len().clamp(FRONT_LEN, LONG_LEN);
            match try_read(&self.socket, &mut [], self.front.room(room))? {
                Some(0) => return Err(Fault::closed()),
                Some(len) => {
                    self.front.received(len);
                    self.let_others().await;
                }
                None => tokio::time::timeout(self.timeout, self.socket.readable())
                    .await
                    .map_err(|_| Fault::Silent)?
                    .map_err(broken)?,
            }
        }
    }

    /// A reader of what comes next, once the request is sent.
    pub(crate) fn receiver(&mut self, range: Range) -> Receiver {
        Receiver::new(range, Extent::Exact, self.timeout, std::mem::take(&mut self.front))
    }

    /// As [`Self::receiver`], of ranges of such lengths.
    pub(crate) fn ranges_receiver(&mut self, lens: impl IntoIterator<Item = u32>) -> ranges::Receiver {
        ranges::Receiver::new(lens, self.timeout, std::mem::take(&mut self.front))
    }

    /// What came behind an answer is for the next operation.
    pub(crate) fn put_back(&mut self, front: Front) {
        self.front = front;
    }

    /// One read of the socket, straight to where the machine has the bytes go. Gives how many came.
    pub(crate) async fn bring<D: ?Sized>(
        &mut self,
        receiver: &mut impl Receives<D>,
        dest: &mut D,
    ) -> Result<usize, Fault> {
        self.let_others().await;
        loop {
            let room = receiver.room(dest);
            if let Some(len) = try_read(&self.socket, room.dest, room.ahead)? {
                return receiver.on_received(self.clock.monotonic(), len).map(|()| len);
            }
            self.read_count = 0;
            let now = self.clock.monotonic();
            receiver.on_blocked(now);
            let limit = receiver.poll_timeout().unwrap_or(Duration::MAX);
            match tokio::time::timeout(limit.saturating_sub(now), self.socket.readable()).await {
                Ok(ready) => ready.map_err(broken)?,
                Err(_) => receiver.handle_timeout(limit)?,
            }
        }
    }

    /// Now and then, between two reads.
    async fn let_others(&mut self) {
        self.read_count += 1;
        if self.read_count > READ_COUNT_MAX {
            self.read_count = 0;
            tokio::task::yield_now().await;
        }
    }

    /// True if an idle connection can take another op: nothing has come on it, not even its end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.front.is_empty() && self.socket.is_quiet()
    }
}

/// A machine that takes what comes, and says into which parts of `D` it goes.
pub(crate) trait Receives<D: ?Sized> {
    fn room<'a>(&'a mut self, dest: &'a mut D) -> Room<'a>;
    fn on_received(&mut self, now: Duration, len: usize) -> Result<(), Fault>;
    fn on_blocked(&mut self, now: Duration);
    fn poll_timeout(&self) -> Option<Duration>;
    fn handle_timeout(&mut self, now: Duration) -> Result<(), Fault>;
}

macro_rules! receives {
    ($machine:ty, $dest:ty $(, $bound:ident: $trait:path)?) => {
        impl$(<$bound: $trait>)? Receives<$dest> for $machine {
            fn room<'a>(&'a mut self, dest: &'a mut $dest) -> Room<'a> {
                <$machine>::room(self, dest)
            }

            fn on_received(&mut self, now: Duration, len: usize) -> Result<(), Fault> {
                <$machine>::on_received(self, now, len)
            }

            fn on_blocked(&mut self, now: Duration) {
                <$machine>::on_blocked(self, now);
            }

            fn poll_timeout(&self) -> Option<Duration> {
                <$machine>::poll_timeout(self)
            }

            fn handle_timeout(&mut self, now: Duration) -> Result<(), Fault> {
                <$machine>::handle_timeout(self, now)
            }
        }
    };
}

receives!(Receiver, [u8]);
receives!(ranges::Receiver, D, D: Dests);

/// One read of the socket: `dest` first, then `ahead`. `None`: there is nothing now; 0: it ended.
///
/// Reading a packet's data and the head of the next one with one call saves a call a packet.
fn try_read(socket: &Socket, dest: &mut [u8], ahead: &mut [u8]) -> Result<Option<usize>, Fault> {
    let mut parts = [IoSliceMut::new(dest), IoSliceMut::new(ahead)];
    loop {
        match socket.try_read_vectored(&mut parts) {
            Ok(len) => return Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

fn broken(error: std_io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::io::dial::Dialer;
    use std::io::Write;
    use wire::Status;

    /// It says again and again that it is still at it, for longer than anybody waits here.
    #[tokio::test]
    async fn a_node_that_floods_instead_of_an_answer_is_silent() {
        let mut piece = Vec::new();
        let still = hdfs::proto::BlockOpResponseProto { status: Status::IN_PROGRESS.0.into(), ..Default::default() };
        (0..100_000).for_each(|_| delimited::put(&still, &mut piece));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string().into();
        let flood = ::io::task::thread("flood", move || {
            let (mut peer, _) = listener.accept().unwrap();
            let clock = ::io::SystemClock::new();
            while clock.monotonic() < Duration::from_secs(10) && peer.write_all(&piece).is_ok() {}
        });
        let node = Node { addr, ..Node::default() };
        let options = Options { timeout: Duration::from_millis(100), ..Options::default() };
        let mut connection =
            Connection::connect(&node, &options, Socket::connect(&node, &Dialer::default())).await.unwrap();
        assert_eq!(connection.receive_answer().await.unwrap_err(), Fault::Silent);
        drop(connection);
        flood.unwrap().join().unwrap();
    }
}
