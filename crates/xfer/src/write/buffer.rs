//! The one buffer of a write stream: bytes as they came, packet behind packet.

use crate::memory::Held;
use wire::packet::Parsed;
use wire::{PacketFrame, WireError};

/// What a stream's buffer is at first: most blocks that are small fit with all that is around them.
const FIRST_LEN: usize = 16 << 10;
/// What is put by for a stream, before it begins: a packet of any stock client, which has 64 KiB of data, or all but
/// its head.
const STOCK_LEN: usize = 72 << 10;
/// What it becomes with the first packet that does not, if there is memory in plenty: several of the 64 KiB packets
/// that all stock clients send, and well inside a core's second-level cache, so that what is received is still there
/// when it is forwarded, verified and written.
const BUFFER_LEN: usize = 256 << 10;
/// Packets taken at once. Those of stock clients never come to so many; a writer of tiny ones shall not get far ahead
/// of its acks.
const RUN_COUNT_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct PacketBuffer<M> {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// There was more in the socket than it took.
    filled: bool,
    memory: M,
}

#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("no memory left for a packet of {0} bytes")]
    Memory(usize),
}

/// Whatever length of packets a stream names, no more is put by: a packet of our own client with its checksums, 256 KiB
/// and 4. What idle streams have only named must not be lacking for those that send.
const NAMED_LEN_MAX: usize = 300 << 10;

/// What a stream needs that begins with `came` and says how long its packets will be, or not: it is to wait, or to be
/// refused, before it begins, and not in the middle. Of longer packets the rest is taken as they come.
pub fn buffer_len(came: &[u8], packet_len: Option<u32>) -> u64 {
    let packet_len = NAMED_LEN_MAX.min(packet_len.unwrap_or(0) as usize);
    STOCK_LEN.max(packet_len).max(came.len()) as u64
}

impl<M: Held> PacketBuffer<M> {
    /// A buffer that begins with `came`, and becomes as long as what was put by.
    pub(super) fn new(came: &[u8], memory: M) -> Self {
        let mut bytes = vec![0; FIRST_LEN.max(came.len())];
        bytes[..came.len()].copy_from_slice(came);
        Self { bytes, start: 0, end: came.len(), filled: false, memory }
    }

    /// Hands over the packets the buffer begins with that are here to their end, each with its place in
    /// [`PacketBuffer::bytes`]. If there is none, there is room for more of the first. What follows the last packet of
    /// a block is nothing that anybody asked for, and is left alone.
    pub(super) fn run(&mut self, mut take: impl FnMut(usize, PacketFrame)) -> Result<(), BufferError> {
        let mut at = self.start;
        for count in 0..RUN_COUNT_MAX {
            match PacketFrame::parse(&self.bytes[at..self.end]) {
                Ok(Parsed::Whole(frame)) => {
                    let (len, last) = (frame.packet_len(), frame.header.last);
                    take(at, frame);
                    at += len;
                    if last {
                        break;
                    }
                }
                Ok(Parsed::Needs(len)) if count == 0 => {
                    self.make_room(len)?;
                    break;
                }
                Err(error) if count == 0 => return Err(error.into()),
                Ok(Parsed::Needs(_)) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// So that the packet at the start can come to its end.
    fn make_room(&mut self, len: usize) -> Result<(), BufferError> {
        let grows = self.filled && self.bytes.len() < BUFFER_LEN;
        if !grows && self.start + len <= self.bytes.len() {
            return Ok(());
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // A stranger claims a length with six bytes: beyond what is reserved, memory is taken as the packet comes.
        let wanted = len.min((2 * self.end).max(self.memory.held_len() as usize));
        if grows || wanted > self.bytes.len() {
            let plenty = wanted.max(BUFFER_LEN);
            if !self.memory.grow_to_if_plenty(plenty as u64) && !self.memory.grow_to(wanted as u64) {
                return Err(BufferError::Memory(wanted));
            }
            let reserved = (self.memory.held_len() as usize).min(plenty);
            self.bytes.resize(reserved.max(self.bytes.len()), 0);
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All that came was consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets what ends at `at`.
    pub(super) fn consume(&mut self, at: usize) {
        self.start = at;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Where the next bytes go.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// So many bytes came into [`PacketBuffer::room`].
    pub(super) fn on_received(&mut self, len: usize) {
        self.end += len;
        assert!(self.end <= self.bytes.len(), "{} bytes in a buffer of {}", self.end, self.bytes.len());
        self.filled |= self.end == self.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use wire::PacketHeader;

    /// A part of all that there is.
    #[derive(Debug)]
    struct Part {
        len: u64,
        free: Rc<Cell<u64>>,
    }

    impl Part {
        fn of(free: u64, len: u64) -> Self {
            Self { len, free: Rc::new(Cell::new(free - len)) }
        }
    }

    impl Held for Part {
        fn held_len(&self) -> u64 {
            self.len
        }

        fn grow_to(&mut self, len: u64) -> bool {
            let more = len.saturating_sub(self.len);
            let has_room = more <= self.free.get();
            if has_room {
                self.free.set(self.free.get() - more);
                self.len += more;
            }
            has_room
        }

        fn grow_to_if_plenty(&mut self, len: u64) -> bool {
            len.saturating_sub(self.len) <= self.free.get() / 2 && self.grow_to(len)
        }
    }

    fn run_of(buffer: &mut PacketBuffer<Part>) -> Result<Vec<(usize, PacketFrame)>, BufferError> {
        let mut run = Vec::new();
        buffer.run(|at, frame| run.push((at, frame))).map(|()| run)
    }

    /// Receives what fits, but no more than `step` bytes.
    fn fill(buffer: &mut PacketBuffer<Part>, from: &[u8], step: usize) -> usize {
        let room = buffer.room();
        let len = room.len().min(step).min(from.len());
        room[..len].copy_from_slice(&from[..len]);
        buffer.on_received(len);
        len
    }

    #[test]
    fn packets_of_any_length_come_out_as_they_went_in() {
        let lens = [0, 1, 65_016, 300_000, 7, 200_000, 600_000, 3];
        let mut stream = Vec::new();
        for (seqno, len) in (0..).zip(lens) {
            let header = PacketHeader { seqno, data_len: len, ..PacketHeader::default() };
            header.put(0, &mut stream);
            stream.extend(vec![seqno as u8; len as usize]);
        }
        for step in [1 << 20, 70_001, 1000] {
            let mut buffer = PacketBuffer::new(&stream[..10], Part::of(1 << 20, buffer_len(&[], None)));
            let mut at = 10;
            let mut came = Vec::new();
            while came.len() < lens.len() {
                let run = run_of(&mut buffer).unwrap();
                for (place, frame) in &run {
                    let data = &buffer.bytes()[*place..][frame.data.clone()];
                    assert!(data.iter().all(|byte| i64::from(*byte) == frame.header.seqno));
                    came.push((frame.header.seqno, data.len() as i32));
                }
                if let Some((place, frame)) = run.last() {
                    buffer.consume(place + frame.packet_len());
                } else {
                    at += fill(&mut buffer, &stream[at..], step);
                }
            }
            assert_eq!(came, (0..).zip(lens).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_packet_above_the_budget_is_refused_and_takes_memory_only_as_it_comes() {
        let mut head = Vec::new();
        PacketHeader { data_len: 16 << 20, ..PacketHeader::default() }.put(0, &mut head);
        let mut buffer = PacketBuffer::new(&head, Part::of(300 << 10, buffer_len(&head, None)));
        assert_eq!(run_of(&mut buffer).unwrap(), []);
        assert!(buffer.memory.free.get() >= 200 << 10, "what is only claimed, others can have");
        let refused = loop {
            fill(&mut buffer, &[0; 10_000], 10_000);
            match run_of(&mut buffer) {
                Ok(run) => assert_eq!(run, []),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, BufferError::Memory(_)) && buffer.bytes.len() <= 300 << 10, "{refused:?}");
        assert_eq!(buffer_len(&head, Some(u32::MAX)), NAMED_LEN_MAX as u64, "not what a stranger wants");
    }

    /// As if they had come one by one: after the last one nobody looks at the others.
    #[test]
    fn a_run_ends_with_the_last_packet() {
        let mut stream = Vec::new();
        for seqno in 0..4 {
            PacketHeader { seqno, last: seqno == 1, ..PacketHeader::default() }.put(0, &mut stream);
        }
        let mut buffer = PacketBuffer::new(&stream, Part::of(1 << 20, buffer_len(&stream, None)));
        let run = run_of(&mut buffer).unwrap();
        assert_eq!(run.iter().map(|(_, frame)| frame.header.seqno).collect::<Vec<_>>(), [0, 1]);
    }

    /// Where memory is short a stream goes on with what was put by for it.
    #[test]
    fn packets_of_stock_clients_need_no_more_than_was_reserved() {
        let mut buffer = PacketBuffer::new(&[], Part::of(100 << 10, buffer_len(&[], None)));
        let mut stream = Vec::new();
        for seqno in 0..100 {
            PacketHeader { seqno, data_len: 64 << 10, sync: true, ..PacketHeader::default() }.put(512, &mut stream);
            stream.extend(vec![seqno as u8; 512 + (64 << 10)]);
        }
        let (mut at, mut came) = (0, 0);
        while came < 100 {
            let run = run_of(&mut buffer).unwrap();
            came += run.len();
            match run.last() {
                Some((place, frame)) => buffer.consume(place + frame.packet_len()),
                None => at += fill(&mut buffer, &stream[at..], usize::MAX),
            }
        }
        assert!(buffer.bytes.len() <= STOCK_LEN);
    }
}
