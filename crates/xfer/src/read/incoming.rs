//! The packets of one range as they come: heads are held against what is awaited, data against its checksums.

use super::range::{Extent, Range, Room};
use super::verdict;
use crate::fault::Fault;
use crate::front::Front;
use types::ChecksumSpec;
use types::mutation::{self, Mutation};
use wire::{PacketHeader, PacketPrefix};

/// What came of going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing: bytes must come first.
    Nothing,
    /// So many bytes, at the beginning of the caller's buffer. They are verified.
    Bytes(usize),
    /// All was given before.
    All,
}

/// Head of a packet as all servers send it.
const HEAD_LEN: usize = PacketPrefix::LEN + PacketHeader::LEN;
/// Bytes brought at once for callers that read less than a chunk at a time. A guess.
const SMALL_READ_LEN: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Incoming {
    spec: ChecksumSpec,
    range: Range,
    extent: Extent,
    /// Next byte for the caller.
    position: u64,
    /// Next byte that the wire brings, behind those of the run.
    wire: u64,
    next_seqno: i64,
    /// Data of the current packet that is not verified yet.
    packet_left: usize,
    /// Data of the longest packet so far, for guessing the next one.
    packet_len: usize,
    /// Of the current packet; those before `sums_at` are used.
    sums: Vec<u8>,
    sums_at: usize,
    /// Of them, those of the bytes given last.
    sums_given_len: usize,
    /// A verified chunk that the caller had no room for; it ends at `wire`.
    chunk: Vec<u8>,
    run: Option<Run>,
    /// Bytes that the front lacks.
    lacks: usize,
    end: End,
}

/// Bytes of one packet that are verified together: whole chunks but at the packet's end.
#[derive(Clone, Copy, Debug)]
struct Run {
    to: To,
    len: usize,
    came: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Caller,
    Chunk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The caller still reads.
    Ahead,
    /// What the server rounded up is taken.
    Rest,
    /// The last packet came.
    Taken,
}

impl Incoming {
    /// `start`: the first byte of the first packet, at most a chunk before the range.
    pub(super) fn new(spec: ChecksumSpec, range: Range, extent: Extent, start: u64) -> Self {
        Self {
            spec,
            range,
            extent,
            position: range.from,
            wire: start,
            next_seqno: 0,
            packet_left: 0,
            packet_len: 0,
            sums: Vec::new(),
            sums_at: 0,
            sums_given_len: 0,
            chunk: Vec::new(),
            run: None,
            lacks: 0,
            end: End::Ahead,
        }
    }

    pub(super) fn spec(&self) -> ChecksumSpec {
        self.spec
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn skip_to(&mut self, position: u64) {
        assert!(position >= self.position && position <= self.range.end, "skips to {position} of {:?}", self.range);
        assert!(self.run.is_none(), "skips while a buffer is being filled");
        self.position = position;
    }

    pub(super) fn sums(&self) -> &[u8] {
        &self.sums[self.sums_at - self.sums_given_len..self.sums_at]
    }

    /// Bytes that are still to be given, as far as is known.
    fn left(&self) -> u64 {
        let here = self.wire.saturating_add(self.packet_left as u64);
        let end = match self.extent {
            Extent::Exact => self.range.end,
            Extent::WholeChunks => self.range.end.max(self.aligned_end().min(here)),
        };
        end.saturating_sub(self.position)
    }

    pub(super) fn poll(&mut self, front: &mut Front, dest: &mut [u8]) -> Result<Given, Fault> {
        loop {
            if let Some(run) = self.run {
                if !self.take(front, dest)? {
                    return Ok(Given::Nothing);
                }
                if run.to == To::Caller {
                    self.position += run.len as u64;
                    return Ok(Given::Bytes(run.len));
                }
                continue;
            }
            let left = self.left();
            if left == 0 || self.end == End::Taken {
                return Ok(Given::All);
            }
            let room = dest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if self.position < self.wire {
                return Ok(Given::Bytes(self.give_of_chunk(&mut dest[..room])));
            }
            if self.packet_left > 0 {
                self.begin_run(room);
            } else if !self.next_packet(front)? {
                return Ok(Given::Nothing);
            } else if self.packet_left == 0 && !mutation::is(Mutation::EndShort) {
                return Err(Fault::Protocol(format!("it ends at {}, asked for {}", self.wire, self.range.end)));
            }
        }
    }

    fn give_of_chunk(&mut self, dest: &mut [u8]) -> usize {
        let chunk_start = self.wire - self.chunk.len() as u64;
        assert!(self.position >= chunk_start, "verified bytes were dropped that the caller has not seen");
        let from = (self.position - chunk_start) as usize;
        let len = dest.len().min(self.chunk.len() - from);
        dest[..len].copy_from_slice(&self.chunk[from..from + len]);
        self.position += len as u64;
        self.sums_given_len = 0;
        len
    }

    /// Decides where the next bytes of the packet go, of a caller with so much room.
    fn begin_run(&mut self, room: usize) {
        let chunk_len = self.spec.chunk_len as usize;
        let (to, len) = if self.position != self.wire || room < chunk_len.min(self.packet_left) {
            // The caller wants only a part of this chunk, or begins in its middle.
            (To::Chunk, chunk_len.min(self.packet_left))
        } else if room >= self.packet_left {
            (To::Caller, self.packet_left)
        } else {
            (To::Caller, room / chunk_len * chunk_len)
        };
        self.begin(to, len);
    }

    fn begin(&mut self, to: To, len: usize) {
        self.chunk.resize(if to == To::Chunk { len } else { 0 }, 0);
        self.run = Some(Run { to, len, came: 0 });
    }

    /// Goes on with the run; true once it is whole and verified.
    fn take(&mut self, front: &mut Front, dest: &mut [u8]) -> Result<bool, Fault> {
        let run = self.run.as_mut().expect("a run");
        assert!(run.to == To::Chunk || dest.len() >= run.len, "another buffer in the middle of a run");
        let bytes = if run.to == To::Caller { &mut dest[..run.len] } else { &mut self.chunk[..] };
        let here = front.bytes().len().min(run.len - run.came);
        bytes[run.came..run.came + here].copy_from_slice(&front.bytes()[..here]);
        front.consume(here);
        run.came += here;
        if run.came < run.len {
            return Ok(false);
        }
        let len = run.len;
        let sums_len = self.spec.sums_len(len as u64) as usize;
        let sums = &self.sums[self.sums_at..self.sums_at + sums_len];
        let unverified = match self.extent {
            Extent::Exact => Mutation::ReadUnverified,
            Extent::WholeChunks => Mutation::CopyUnverified,
        };
        if !mutation::is(unverified) {
            self.spec.verify(bytes, sums).map_err(|at| Fault::Corrupt { offset: self.wire + at as u64 })?;
        }
        self.run = None;
        self.sums_at += sums_len;
        self.sums_given_len = sums_len;
        self.packet_left -= len;
        self.wire += len as u64;
        Ok(true)
    }

    /// Takes the head and the checksums of the next packet off the front; false: bytes must come first.
    fn next_packet(&mut self, front: &mut Front) -> Result<bool, Fault> {
        let Some(prefix) = front.bytes().first_chunk::<{ PacketPrefix::LEN }>() else {
            self.lacks = HEAD_LEN;
            return Ok(false);
        };
        let prefix = PacketPrefix::decode(*prefix)?;
        let head_len = PacketPrefix::LEN + usize::from(prefix.header_len);
        if self.lacks_until(front, head_len) {
            return Ok(false);
        }
        let header = PacketHeader::decode(&front.bytes()[PacketPrefix::LEN..head_len])?;
        let data_len = usize::try_from(header.data_len).map_err(|_| Fault::Protocol("negative length".to_owned()))?;
        let sums_len = self.spec.sums_len(data_len as u64) as usize;
        let is_in_place = u64::try_from(header.offset) == Ok(self.wire) || mutation::is(Mutation::MisplacedPackets);
        let expected = header.seqno == self.next_seqno
            && is_in_place
            && prefix.payload_len as usize == sums_len + data_len
            && header.last == (data_len == 0);
        if !expected {
            return Err(Fault::Protocol(format!(
                "packet {} at {} with {data_len} bytes, awaited {} at {}",
                header.seqno, header.offset, self.next_seqno, self.wire
            )));
        }
        // The prefix was bounded when it was decoded, and the checksums are a part of what it counts.
        if self.lacks_until(front, head_len + sums_len) {
            return Ok(false);
        }
        self.sums.clear();
        self.sums.extend_from_slice(&front.bytes()[head_len..head_len + sums_len]);
        self.sums_at = 0;
        self.sums_given_len = 0;
        front.consume(head_len + sums_len);
        self.next_seqno += 1;
        self.packet_left = data_len;
        self.packet_len = self.packet_len.max(data_len);
        if header.last {
            self.end = End::Taken;
        }
        Ok(true)
    }

    fn lacks_until(&mut self, front: &Front, len: usize) -> bool {
        self.lacks = len.saturating_sub(front.bytes().len());
        self.lacks > 0
    }

    pub(super) fn poll_end(&mut self, front: &mut Front) -> Result<Option<Vec<u8>>, Fault> {
        let too_much = || Fault::Protocol("more than was asked for".to_owned());
        if self.end == End::Ahead {
            assert!(self.left() == 0 && self.run.is_none(), "an end before all was given");
            // The server may have rounded the end up to the chunk, within the last packet.
            if self.packet_left > self.spec.chunk_len as usize {
                return Err(too_much());
            }
            self.end = End::Rest;
            if self.packet_left > 0 {
                self.begin(To::Chunk, self.packet_left);
            }
        }
        loop {
            if self.run.is_some() && !self.take(front, &mut [])? {
                return Ok(None);
            }
            if self.end == End::Taken || mutation::is(Mutation::LeaveEnd) {
                break;
            }
            let is_first = self.next_seqno == 0;
            if !self.next_packet(front)? {
                return Ok(None);
            }
            if self.packet_left == 0 {
                continue;
            }
            // Of no bytes at all, the server may have rounded both ends to the chunk.
            let is_rounded = is_first && self.range.from == self.range.end;
            if !is_rounded || self.packet_left > self.spec.chunk_len as usize {
                return Err(too_much());
            }
            self.begin(To::Chunk, self.packet_left);
        }
        Ok(Some(verdict::good(self.spec)))
    }

    pub(super) fn room<'a>(&'a mut self, front: &'a mut Front, dest: &'a mut [u8]) -> Room<'a> {
        let Some(run) = self.run else {
            return Room { dest: &mut [], ahead: front.room(self.lacks) };
        };
        if run.is_small(self.end) {
            // Many small reads are likely: bring more at once.
            return Room { dest: &mut [], ahead: front.room(self.packet_left.min(SMALL_READ_LEN)) };
        }
        let ahead = if run.len == self.packet_left { self.ahead() } else { 0 };
        let into = if run.to == To::Caller { dest } else { &mut self.chunk[..] };
        Room { dest: &mut into[run.came..run.len], ahead: front.room(ahead) }
    }

    /// Of the bytes that came, so many are the run's.
    pub(super) fn on_received(&mut self, len: usize) -> usize {
        let end = self.end;
        match &mut self.run {
            Some(run) if !run.is_small(end) => {
                let direct_len = len.min(run.len - run.came);
                run.came += direct_len;
                direct_len
            }
            _ => 0,
        }
    }

    /// How many bytes to read along behind the current packet: the next one's head and sums, if it is like this one.
    fn ahead(&self) -> usize {
        let after = self.wire + self.packet_left as u64;
        let rest = self.aligned_end().saturating_sub(after).min(self.packet_len as u64);
        if rest == 0 { HEAD_LEN } else { HEAD_LEN + self.spec.sums_len(rest) as usize }
    }

    /// Where the data ends if the server rounds up to whole chunks.
    fn aligned_end(&self) -> u64 {
        self.range.end.checked_next_multiple_of(u64::from(self.spec.chunk_len)).unwrap_or(u64::MAX)
    }
}

impl Run {
    /// A chunk for a caller that has no room for it, of which nothing has come.
    fn is_small(self, end: End) -> bool {
        self.to == To::Chunk && self.came == 0 && end == End::Ahead
    }
}
