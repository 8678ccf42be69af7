//! One connection to a datanode, and the bytes that have come on it but were not asked for yet.

use crate::located::Node;
use crate::options::Options;
use crate::socket::Socket;
use io::Clock;
use std::io::{self as std_io, ErrorKind, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;
use xfer::answer::{Answered, Awaiting};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{Extent, Range, Receiver};

/// Bytes asked of the kernel with an answer.
const FRONT_LEN: usize = 8 << 10;

pub(crate) struct Connection {
    socket: Socket,
    /// What came behind the last message. While a [`Receiver`] reads, it has this.
    front: Front,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    addr: Arc<str>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection to {}", self.addr)
    }
}

impl Connection {
    pub(crate) async fn connect(node: &Node, options: &Options) -> Result<Self, Fault> {
        let connecting = tokio::time::timeout(options.connect_timeout, Socket::connect(node)).await;
        let socket = connecting.map_err(|_| Fault::Silent)?.map_err(|error| Fault::NoConnection(error.to_string()))?;
        let (clock, addr) = (Arc::clone(&options.clock), Arc::clone(&node.addr));
        Ok(Self { socket, front: Front::default(), timeout: options.timeout, clock, addr })
    }

    pub(crate) fn addr(&self) -> &Arc<str> {
        &self.addr
    }

    /// How long the node may be silent from now on.
    pub(crate) fn allow(&mut self, silence: Duration) {
        self.timeout = silence;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        tokio::time::timeout(self.timeout, send_all(&self.socket, bytes))
            .await
            .map_err(|_| Fault::Silent)?
            .map_err(broken)
    }

    /// The answer that every op gets first. What comes behind it stays in front of later reads. A node of ours that is
    /// still at it says so any number of times: whoever announced that he understands this sets a limit to all of it.
    pub(crate) async fn receive_answer(&mut self) -> Result<Answered, Fault> {
        let mut awaiting = Awaiting::default();
        loop {
            let (consumed, answer) = awaiting.on_bytes(self.front.bytes())?;
            self.front.consume(consumed);
            if let Some(answer) = answer {
                return Ok(answer?);
            }
            match try_read(&self.socket, &mut [], self.front.room(FRONT_LEN))? {
                Some(0) => return Err(Fault::closed()),
                Some(len) => self.front.received(len),
                None => match tokio::time::timeout(self.timeout, self.socket.readable()).await {
                    Err(_) => return Err(Fault::Silent),
                    Ok(ready) => ready.map_err(broken)?,
                },
            }
        }
    }

    /// A reader of what comes next, once the request is sent.
    pub(crate) fn receiver(&mut self, range: Range) -> Receiver {
        Receiver::new(range, Extent::Exact, self.timeout, std::mem::take(&mut self.front))
    }

    /// The reader is done: what it did not take is for the next operation.
    pub(crate) fn received(&mut self, receiver: Receiver) {
        self.front = receiver.into_front();
    }

    /// One read of the socket, straight to where the machine has the bytes go.
    pub(crate) async fn bring(&self, receiver: &mut Receiver, dest: &mut [u8]) -> Result<(), Fault> {
        loop {
            let room = receiver.room(dest);
            if let Some(len) = try_read(&self.socket, room.dest, room.ahead)? {
                return receiver.on_received(len);
            }
            let now = self.clock.monotonic();
            receiver.on_blocked(now);
            let limit = receiver.poll_timeout().unwrap_or(Duration::MAX);
            match tokio::time::timeout(limit.saturating_sub(now), self.socket.readable()).await {
                Ok(ready) => ready.map_err(broken)?,
                Err(_) => receiver.handle_timeout(limit)?,
            }
        }
    }

    /// True if an idle connection can take another op: nothing has come on it, not even its end.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let nothing = |error: std_io::Error| error.kind() == ErrorKind::WouldBlock;
        self.front.is_empty() && self.socket.try_read(&mut byte).is_err_and(nothing)
    }
}

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

/// Writes all of `bytes`. On an error, or when dropped half-way, the connection is torn and of no more use.
async fn send_all(socket: &Socket, mut bytes: &[u8]) -> std_io::Result<()> {
    while !bytes.is_empty() {
        match socket.try_write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn broken(error: std_io::Error) -> Fault {
    Fault::Broken(error.to_string())
}
