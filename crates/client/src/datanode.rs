//! One connection to a datanode, and the bytes that have come on it but were not asked for yet.

use crate::options::Options;
use hdfs::proto;
use io::Clock;
use std::io::{self as std_io, ErrorKind, IoSliceMut};
use std::time::Duration;
use tokio::net::TcpStream;
use wire::Op;
use xfer::answer::Awaiting;
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{Extent, Range, Receiver};
use xfer::request;

/// Bytes asked of the kernel with an answer.
const FRONT_LEN: usize = 8 << 10;

pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// What came behind the last message. While a [`Receiver`] reads, it has this.
    front: Front,
    timeout: Duration,
    clock: io::SystemClock,
    pub(crate) addr: String,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link to {}", self.addr)
    }
}

impl Link {
    pub(crate) async fn connect(node: &proto::DatanodeInfoProto, options: &Options) -> Result<Self, Fault> {
        let addr = node.id.xfer_addr();
        let place = (node.id.ip_addr.as_str(), node.id.xfer_port as u16);
        let connecting = tokio::time::timeout(options.connect_timeout, TcpStream::connect(place)).await;
        let stream = connecting.map_err(|_| Fault::Silent)?.map_err(no_connection)?;
        io::socket::apply(&stream, &io::socket::SocketOptions::default()).map_err(no_connection)?;
        Ok(Self { stream, front: Front::default(), timeout: options.timeout, clock: io::SystemClock::new(), addr })
    }

    /// How long the node may be silent from now on.
    pub(crate) fn allow(&mut self, silence: Duration) {
        self.timeout = silence;
    }

    /// Sends the op in one piece.
    pub(crate) async fn send_op(&mut self, op: Op, message: &impl prost::Message) -> Result<(), Fault> {
        self.send(&request::encode(op, message)).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        tokio::time::timeout(self.timeout, send_all(&self.stream, bytes))
            .await
            .map_err(|_| Fault::Silent)?
            .map_err(broken)
    }

    /// The answer that every op gets first. What comes behind it stays in front of later reads. A node of ours that is
    /// still at it says so any number of times: whoever announced that he understands this sets a limit to all of it.
    pub(crate) async fn receive_answer(&mut self) -> Result<proto::BlockOpResponseProto, Fault> {
        let mut awaiting = Awaiting::default();
        loop {
            let (consumed, answer) = awaiting.on_bytes(self.front.bytes())?;
            self.front.consume(consumed);
            if let Some(answer) = answer {
                return Ok(answer?);
            }
            match try_read(&self.stream, &mut [], self.front.room(FRONT_LEN))? {
                Some(0) => return Err(Fault::closed()),
                Some(len) => self.front.received(len),
                None => match tokio::time::timeout(self.timeout, self.stream.readable()).await {
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
            if let Some(len) = try_read(&self.stream, room.dest, room.ahead)? {
                return receiver.on_received(len);
            }
            let now = self.clock.monotonic();
            receiver.on_blocked(now);
            let limit = receiver.poll_timeout().unwrap_or(Duration::MAX);
            match tokio::time::timeout(limit.saturating_sub(now), self.stream.readable()).await {
                Ok(ready) => ready.map_err(broken)?,
                Err(_) => receiver.handle_timeout(limit)?,
            }
        }
    }

    /// True if an idle connection can take another op: nothing has come on it, not even its end.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let nothing = |error: std_io::Error| error.kind() == ErrorKind::WouldBlock;
        self.front.is_empty() && self.stream.try_read(&mut byte).is_err_and(nothing)
    }
}

/// One read of the socket: `dest` first, then `ahead`. `None`: there is nothing now; 0: it ended.
///
/// Reading a packet's data and the head of the next one with one call saves a call a packet.
fn try_read(stream: &TcpStream, dest: &mut [u8], ahead: &mut [u8]) -> Result<Option<usize>, Fault> {
    let mut parts = [IoSliceMut::new(dest), IoSliceMut::new(ahead)];
    loop {
        match stream.try_read_vectored(&mut parts) {
            Ok(len) => return Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

/// Writes all of `bytes`. On an error, or when dropped half-way, the stream is torn and of no more use.
async fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> std_io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn no_connection(error: std_io::Error) -> Fault {
    Fault::NoConnection(error.to_string())
}

fn broken(error: std_io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

/// What was tried, in one line for an error.
pub(crate) fn tried<F: std::fmt::Display>(faults: &[(String, F)]) -> String {
    if faults.is_empty() {
        return "the metadata server names no node that has it".into();
    }
    let lines: Vec<String> = faults.iter().map(|(addr, fault)| format!("{addr}: {fault}")).collect();
    lines.join("; ")
}
