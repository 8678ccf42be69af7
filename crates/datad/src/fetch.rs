//! Reading a whole replica from another node, by the operation that clients read with (op 81).

use crate::config::Limits;
use crate::outward::Outward;
use crate::socket::Socket;
use hdfs::proto;
use io::socket::SocketOptions;
use io::{Clock, SystemClock};
use sasl::Secret;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ChecksumSpec, Generation};
use wire::node::{BlockToken, CopyOrder};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{self, Extent, Given, Range, Receiver};

/// What is verified and written at a time: a packet of our own nodes. A chunk that is longer has all of its room.
const RUN_LEN: u64 = 256 << 10;
/// Connections kept: a node copies from some others at a time.
const KEPT_COUNT_MAX: usize = 16;

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The node that was read is to blame, or the way to it: another one may do.
    Source { reason: String, corrupt: bool },
    /// This node is.
    Own(String),
}

/// The source may have worded it: it goes into the log and into heartbeats.
fn source(reason: impl AsRef<str>) -> CopyError {
    CopyError::Source { reason: rpc::log_text(reason.as_ref()), corrupt: false }
}

fn failed(error: &std::io::Error) -> CopyError {
    source(error.to_string())
}

impl From<Fault> for CopyError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused { message, .. } => source(message),
            Fault::Corrupt { offset } => {
                let reason = format!("its bytes at {offset} do not agree with their checksum");
                Self::Source { reason, corrupt: true }
            }
            other => source(other.to_string()),
        }
    }
}

/// Connections to other nodes, kept between replicas: small ones come by the thousand.
#[derive(Debug)]
pub(crate) struct Fetcher {
    outward: Option<Arc<Outward>>,
    connect: Duration,
    silent: Duration,
    clock: SystemClock,
    kept: HashMap<String, (Socket, Front)>,
    buffer: Vec<u8>,
}

/// The answer to one read.
pub(crate) struct Reply<'a> {
    fetcher: &'a mut Fetcher,
    addr: String,
    /// Until the end was taken.
    reading: Option<Reading>,
    spec: ChecksumSpec,
}

/// A read on its connection.
struct Reading {
    socket: Socket,
    receiver: Receiver,
    clock: SystemClock,
}

/// Bytes and the checksums that cover them. They agree.
pub(crate) struct Packet<'a> {
    pub(crate) sums: &'a [u8],
    pub(crate) data: &'a [u8],
}

impl Fetcher {
    /// `outward`: what puts its connections behind a handshake where one is needed.
    pub(crate) fn new(limits: &Limits, outward: Option<Arc<Outward>>) -> Self {
        let (connect, silent) = (Duration::from_millis(limits.connect_ms), Duration::from_millis(limits.setup_ms));
        Self { outward, connect, silent, clock: SystemClock::new(), kept: HashMap::new(), buffer: Vec::new() }
    }

    /// Asks the node at `addr` for the replica.
    pub(crate) fn open(&mut self, addr: &str, pool: String, order: &CopyOrder) -> Result<Reply<'_>, CopyError> {
        let whole = (Range { from: 0, end: order.len }, Extent::WholeChunks);
        // One that was kept may have been closed by the other side: then a fresh one.
        if let Some((socket, front)) = self.kept.remove(addr)
            && let Ok((reading, spec)) = self.begin(socket, front, &pool, order, whole)
        {
            return Ok(self.reply(addr, reading, spec, order.len));
        }
        let to: SocketAddr = addr.parse().map_err(|_| source(format!("{addr:?} is no address")))?;
        let socket = self.connect(to, order).map_err(|error| failed(&error))?;
        let (reading, spec) = self.begin(socket, Front::default(), &pool, order, whole)?;
        Ok(self.reply(addr, reading, spec, order.len))
    }

    fn connect(&self, to: SocketAddr, order: &CopyOrder) -> std::io::Result<Socket> {
        let mut socket = Socket::connect(to, self.connect)?;
        io::socket::apply(&socket, &SocketOptions::default())?;
        if let Some(outward) = &self.outward {
            let secret = match &order.token {
                Some(BlockToken { identifier, password }) => Secret { identifier, password },
                None => Secret::default(),
            };
            socket = socket.protected(outward, secret, self.silent)?;
        }
        socket.set_limits(self.silent)?;
        Ok(socket)
    }

    /// Bytes of a replica, verified, over a connection of their own.
    pub(crate) fn bytes(&self, addr: &str, pool: &str, order: &CopyOrder, range: Range) -> Result<Vec<u8>, CopyError> {
        let to: SocketAddr = addr.parse().map_err(|_| source(format!("{addr:?} is no address")))?;
        let socket = self.connect(to, order).map_err(|error| failed(&error))?;
        let (mut reading, _) = self.begin(socket, Front::default(), pool, order, (range, Extent::Exact))?;
        let (mut bytes, mut done) = (vec![0; (range.end - range.from) as usize], 0);
        while done < bytes.len() {
            match reading.receiver.poll(&mut bytes[done..])? {
                Given::Nothing => reading.bring(&mut bytes[done..])?,
                Given::Bytes(len) => done += len,
                Given::All => return Err(source("it has fewer bytes than were asked for")),
            }
        }
        Ok(bytes)
    }

    /// Sends the request and awaits the answer.
    fn begin(
        &self,
        socket: Socket,
        front: Front,
        pool: &str,
        order: &CopyOrder,
        (range, extent): (Range, Extent),
    ) -> Result<(Reading, ChecksumSpec), CopyError> {
        socket.send_all(&request(pool, order, range)?).map_err(|error| failed(&error))?;
        let receiver = Receiver::new(range, extent, self.silent, front);
        let mut reading = Reading { socket, receiver, clock: self.clock };
        loop {
            match reading.receiver.poll_answer()? {
                Some(spec) => return Ok((reading, spec)),
                None => reading.bring(&mut [])?,
            }
        }
    }

    fn reply(&mut self, addr: &str, reading: Reading, spec: ChecksumSpec, len: u64) -> Reply<'_> {
        let chunk_len = u64::from(spec.chunk_len);
        let run_len = RUN_LEN.min(len.saturating_add(chunk_len)).max(chunk_len) as usize;
        if self.buffer.len() < run_len {
            self.buffer.resize(run_len, 0);
        }
        Reply { fetcher: self, addr: addr.to_owned(), reading: Some(reading), spec }
    }
}

fn request(pool: &str, order: &CopyOrder, range: Range) -> Result<Vec<u8>, Fault> {
    // The leader's, which goes along with its order: this node makes none.
    let BlockToken { identifier, password } = order.token.clone().unwrap_or_default();
    let token =
        proto::TokenProto { identifier, password, kind: wire::token::KIND.to_owned(), ..proto::TokenProto::none() };
    let (block, generation) = (BlockId(order.block), Generation(order.generation));
    let block = proto::ExtendedBlockProto::of(pool, block, generation, order.len);
    read::request(block, token, "levada-copy".to_owned(), range)
}

impl Reading {
    /// One read of the socket, straight to where the machine has the bytes go.
    fn bring(&mut self, dest: &mut [u8]) -> Result<(), CopyError> {
        loop {
            // A source may bring something each time, and too little: the socket knows nothing of that.
            let now = self.clock.monotonic();
            self.receiver.on_blocked(now);
            self.receiver.handle_timeout(now)?;
            let room = self.receiver.room(dest);
            match self.socket.receive_vectored(room.dest, room.ahead) {
                Ok(len) => return Ok(self.receiver.on_received(self.clock.monotonic(), len)?),
                // The socket waits as long as the machine lets it.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.receiver.handle_timeout(self.clock.monotonic())?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

impl Reply<'_> {
    /// What covers the packets.
    pub(crate) fn spec(&self) -> ChecksumSpec {
        self.spec
    }

    /// The next bytes, verified; `None` behind the last: then all came that was ordered.
    pub(crate) fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CopyError> {
        let Some(reading) = &mut self.reading else { return Ok(None) };
        loop {
            match reading.receiver.poll(&mut self.fetcher.buffer)? {
                Given::Nothing => reading.bring(&mut self.fetcher.buffer)?,
                Given::Bytes(len) => {
                    // Asked for anew, as what a loop goes on with cannot be returned.
                    let reading = self.reading.as_ref().expect("it was just there");
                    return Ok(Some(Packet { sums: reading.receiver.sums(), data: &self.fetcher.buffer[..len] }));
                }
                Given::All => {
                    self.conclude()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Takes the end, says that all was good, and leaves the connection for the next.
    fn conclude(&mut self) -> Result<(), CopyError> {
        let Some(mut reading) = self.reading.take() else { return Ok(()) };
        let verdict = loop {
            match reading.receiver.poll_end()? {
                Some(verdict) => break verdict,
                None => reading.bring(&mut [])?,
            }
        };
        let front = reading.receiver.into_front();
        // If something came behind the end, it is not what the next operation awaits.
        let keeps = front.is_empty() && self.fetcher.kept.len() < KEPT_COUNT_MAX;
        if reading.socket.send_all(&verdict).is_ok() && keeps {
            reading.socket.rest();
            self.fetcher.kept.insert(std::mem::take(&mut self.addr), (reading.socket, front));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn what_a_source_says_is_cut() {
        let refused = Fault::Refused { status: wire::Status::ERROR, message: "no\n".repeat(20_000) };
        let CopyError::Source { reason, .. } = CopyError::from(refused) else { panic!("its fault") };
        assert!(reason.starts_with("no\\nno") && reason.len() < 1000, "{reason}");
    }

    /// It may lack keys, or have a clock that is wrong: another source may take the same token.
    #[test]
    fn a_source_that_refuses_a_token_is_at_fault_itself() {
        let refused = Fault::Refused { status: wire::Status::ERROR_ACCESS_TOKEN, message: "no".into() };
        assert!(matches!(CopyError::from(refused), CopyError::Source { corrupt: false, .. }));
    }

    /// Each read brings something: the next source is tried nevertheless.
    #[test]
    fn a_source_that_trickles_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let source = io::task::thread("trickles", move || {
            let (mut peer, _) = listener.accept().unwrap();
            // The length of a long answer, and a byte of it now and then.
            let mut bytes = [0xff, 0xff, 0x03].into_iter().chain(std::iter::repeat_n(0, 100));
            while let Some(byte) = bytes.next()
                && peer.write_all(&[byte]).is_ok()
            {
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        let mut fetcher = Fetcher::new(&Limits { setup_ms: 300, ..Limits::default() }, None);
        let order = CopyOrder { block: 1, generation: 1001, len: 1000, ..CopyOrder::default() };
        let fault = fetcher.open(&addr, "BP-1".to_owned(), &order).err();
        assert!(matches!(&fault, Some(CopyError::Source { reason, .. }) if reason == "no answer in time"), "{fault:?}");
        drop(fetcher);
        source.unwrap().join().unwrap();
    }
}
