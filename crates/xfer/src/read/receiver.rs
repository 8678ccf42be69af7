//! The reader's end of one range: answer, packets, last packet, verdict.
//!
//! ```text
//! poll_answer ──▶ poll(dest) … ──▶ poll_end          each says that bytes must come first: then
//!                                                      room(dest) ─▶ one readv ─▶ on_received
//! packet:  head · sums · data                        one system call a packet:
//!                         ╰──▶ the caller's buffer      readv( [data of k] [head and sums of k+1] )
//!          ╰─────────╯──▶ the front
//! ```
//!
//! Promise: data is copied once, by the kernel, but for chunks that the caller has no room for as a whole, and for
//! bytes that came along with the answer. The machine holds one chunk, the checksums of one packet and what came ahead,
//! which the longest packet bounds. The node is waited for as long as a [`Patience`] lasts.

use super::incoming::{Given, Incoming};
use super::patience::Patience;
use super::range::{Extent, Range, Room};
use crate::answer::Awaiting;
use crate::fault::Fault;
use crate::front::Front;
use crate::request::encode;
use hdfs::proto;
use std::time::Duration;
use types::ChecksumSpec;
use wire::Op;

/// Bytes asked of the kernel with an answer: the answer, the first packet's head, and the data of a small read.
const ANSWER_AHEAD_LEN: usize = 8 << 10;

#[derive(Debug)]
pub struct Receiver {
    front: Front,
    range: Range,
    extent: Extent,
    patience: Patience,
    state: State,
}

#[derive(Debug)]
enum State {
    Answer(Awaiting),
    Packets(Incoming),
}

/// Asks for a range of a block.
pub fn request(
    block: proto::ExtendedBlockProto,
    token: proto::TokenProto,
    client_name: String,
    range: Range,
) -> Result<Vec<u8>, Fault> {
    let read = proto::OpReadBlockProto {
        header: proto::ClientOperationHeaderProto {
            base_header: proto::BaseHeaderProto { block, token: Some(token), trace_info: None },
            client_name,
        },
        offset: range.from,
        len: range.end - range.from,
        send_checksums: Some(true),
        caching_strategy: None,
    };
    encode(Op::ReadBlock, &read)
}

impl Receiver {
    /// The request was sent. `front`: what came on the connection behind the operation before.
    pub fn new(range: Range, extent: Extent, stall: Duration, front: Front) -> Self {
        assert!(range.from <= range.end, "a range from {} to {}", range.from, range.end);
        Self { front, range, extent, patience: Patience::new(stall), state: State::Answer(Awaiting::default()) }
    }

    /// Awaits the answer: what covers the packets. `None`: bytes must come first.
    pub fn poll_answer(&mut self) -> Result<Option<ChecksumSpec>, Fault> {
        let awaiting = match &mut self.state {
            State::Answer(awaiting) => awaiting,
            State::Packets(incoming) => return Ok(Some(incoming.spec())),
        };
        let (consumed, answer) = awaiting.on_bytes(self.front.bytes())?;
        self.front.consume(consumed);
        if awaiting.heard_count() > 0 {
            // Else a node could have a reader wait for ever.
            return Err(protocol("a keepalive, which no read is answered with"));
        }
        let Some(answer) = answer else { return Ok(None) };
        let info = answer?.read_op_checksum_info.ok_or_else(|| protocol("no checksum in its answer"))?;
        let spec = info.checksum.spec().ok_or_else(|| {
            let (kind, len) = (info.checksum.r#type, info.checksum.bytes_per_checksum);
            Fault::Protocol(format!("checksum type {kind} over {len} bytes, which nobody knows"))
        })?;
        let start = info.chunk_offset;
        if start > self.range.from || self.range.from - start >= u64::from(spec.chunk_len) {
            return Err(Fault::Protocol(format!("it begins at {start}, asked for {}", self.range.from)));
        }
        self.state = State::Packets(Incoming::new(spec, self.range, self.extent, start));
        // Every byte is held against what is awaited, so what came is a part of the range, but for heads and checksums.
        self.patience.on_progress();
        Ok(Some(spec))
    }

    /// Goes on with what is here. Once bytes of `dest` are being filled, it must be the same until they are given.
    /// `dest` is not empty; the answer was polled.
    pub fn poll(&mut self, dest: &mut [u8]) -> Result<Given, Fault> {
        assert!(!dest.is_empty(), "a read into no room");
        let (incoming, front) = self.incoming();
        incoming.poll(front, dest)
    }

    /// All was given: takes the end. Returns the verdict, which is to be sent; the connection can then carry another
    /// operation. `None`: bytes must come first.
    pub fn poll_end(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let (incoming, front) = self.incoming();
        incoming.poll_end(front)
    }

    /// Where the bytes go that must come first. `dest` is the one of `poll`, or empty where that was not called.
    pub fn room<'a>(&'a mut self, dest: &'a mut [u8]) -> Room<'a> {
        match &mut self.state {
            State::Answer(_) => Room { dest: &mut [], ahead: self.front.room(ANSWER_AHEAD_LEN) },
            State::Packets(incoming) => incoming.room(&mut self.front, dest),
        }
    }

    /// So many bytes came into the room; none: the node closed the connection.
    pub fn on_received(&mut self, now: Duration, len: usize) -> Result<(), Fault> {
        if len == 0 {
            return Err(Fault::closed());
        }
        self.patience.on_received(now, len);
        let direct_len = match &mut self.state {
            State::Answer(_) => 0,
            State::Packets(incoming) => incoming.on_received(len),
        };
        self.front.received(len - direct_len);
        Ok(())
    }

    /// The connection has nothing now. From then on the node is waited for, until something comes.
    pub fn on_blocked(&mut self, now: Duration) {
        self.patience.on_blocked(now);
    }

    pub fn poll_timeout(&self) -> Option<Duration> {
        self.patience.poll_timeout()
    }

    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Fault> {
        self.patience.handle_timeout(now)
    }

    /// Next byte for the caller.
    pub fn position(&self) -> u64 {
        match &self.state {
            State::Answer(_) => self.range.from,
            State::Packets(incoming) => incoming.position(),
        }
    }

    pub fn end(&self) -> u64 {
        self.range.end
    }

    /// Bytes up to there are read and verified, but not given. Not while bytes of a `dest` are being filled.
    pub fn skip_to(&mut self, position: u64) {
        self.incoming().0.skip_to(position);
    }

    /// The checksums of the bytes that were given last, if those were whole chunks or ended with the replica.
    pub fn sums(&self) -> &[u8] {
        match &self.state {
            State::Answer(_) => &[],
            State::Packets(incoming) => incoming.sums(),
        }
    }

    /// What came behind the end, for the next operation.
    pub fn into_front(mut self) -> Front {
        self.front.give_back();
        self.front
    }

    fn incoming(&mut self) -> (&mut Incoming, &mut Front) {
        match &mut self.state {
            State::Answer(_) => panic!("packets were polled before the answer was here"),
            State::Packets(incoming) => (incoming, &mut self.front),
        }
    }
}

fn protocol(text: &str) -> Fault {
    Fault::Protocol(text.to_owned())
}
