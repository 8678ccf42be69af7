//! The one buffer of a write stream: bytes as they came, packet behind packet.

use crate::budget::Reservation;
use std::io;
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
pub(super) struct PacketBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// There was more in the socket than it took.
    filled: bool,
    reservation: Reservation,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BufferError {
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
pub(super) fn buffer_len(came: &[u8], packet_len: Option<u32>) -> u64 {
    let packet_len = NAMED_LEN_MAX.min(packet_len.unwrap_or(0) as usize);
    STOCK_LEN.max(packet_len).max(came.len()) as u64
}

impl PacketBuffer {
    /// A buffer that begins with `came`, and becomes as long as what is reserved.
    pub(super) fn new(came: &[u8], reservation: Reservation) -> Self {
        let mut bytes = vec![0; FIRST_LEN.max(came.len())];
        bytes[..came.len()].copy_from_slice(came);
        Self { bytes, start: 0, end: came.len(), filled: false, reservation }
    }

    /// The packets the buffer begins with that are here to their end, each with its place in [`PacketBuffer::bytes`].
    /// If there is none, there is room for more of the first. What follows the last packet of a block is nothing that
    /// anybody asked for, and is left alone.
    pub(super) fn run(&mut self) -> Result<Vec<(usize, PacketFrame)>, BufferError> {
        let mut run = Vec::new();
        let mut at = self.start;
        while run.len() < RUN_COUNT_MAX {
            match PacketFrame::parse(&self.bytes[at..self.end]) {
                Ok(Parsed::Whole(frame)) => {
                    let (len, last) = (frame.packet_len(), frame.header.last);
                    run.push((at, frame));
                    at += len;
                    if last {
                        break;
                    }
                }
                Ok(Parsed::Needs(len)) if run.is_empty() => {
                    self.make_room(len)?;
                    break;
                }
                Err(error) if run.is_empty() => return Err(error.into()),
                Ok(Parsed::Needs(_)) | Err(_) => break,
            }
        }
        Ok(run)
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
        let wanted = len.min((2 * self.end).max(self.reservation.len() as usize));
        if grows || wanted > self.bytes.len() {
            let plenty = wanted.max(BUFFER_LEN);
            if !self.reservation.grow_to_if_plenty(plenty as u64) && !self.reservation.grow_to(wanted as u64) {
                return Err(BufferError::Memory(wanted));
            }
            let reserved = (self.reservation.len() as usize).min(plenty);
            self.bytes.resize(reserved.max(self.bytes.len()), 0);
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what ends at `at`.
    pub(super) fn consume(&mut self, at: usize) {
        self.start = at;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives what fits with one call. `Ok(0)` is the end of the stream.
    pub(super) fn fill(&mut self, mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let len = receive(&mut self.bytes[self.end..])?;
        self.end += len;
        self.filled |= self.end == self.bytes.len();
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use wire::PacketHeader;

    #[test]
    fn packets_of_any_length_come_out_as_they_went_in() {
        let budget = Budget::new(1 << 20);
        let lens = [0, 1, 65_016, 300_000, 7, 200_000, 600_000, 3];
        let mut stream = Vec::new();
        for (seqno, len) in (0..).zip(lens) {
            let header = PacketHeader { seqno, data_len: len, ..PacketHeader::default() };
            header.put(0, &mut stream);
            stream.extend(vec![seqno as u8; len as usize]);
        }
        for step in [1 << 20, 70_001, 1000] {
            let mut buffer = PacketBuffer::new(&stream[..10], budget.take(buffer_len(&[], None)).unwrap());
            let mut at = 10;
            let mut came = Vec::new();
            while came.len() < lens.len() {
                let run = buffer.run().unwrap();
                for (place, frame) in &run {
                    let data = &buffer.bytes()[*place..][frame.data.clone()];
                    assert!(data.iter().all(|byte| i64::from(*byte) == frame.header.seqno));
                    came.push((frame.header.seqno, data.len() as i32));
                }
                if let Some((place, frame)) = run.last() {
                    buffer.consume(place + frame.packet_len());
                } else {
                    let got = buffer.fill(|room| {
                        let len = room.len().min(step).min(stream.len() - at);
                        room[..len].copy_from_slice(&stream[at..at + len]);
                        Ok(len)
                    });
                    at += got.unwrap();
                }
            }
            assert_eq!(came, (0..).zip(lens).collect::<Vec<_>>());
        }
        assert!(budget.take(1 << 20).is_some(), "all came back");
    }

    #[test]
    fn a_packet_above_the_budget_is_refused_and_takes_memory_only_as_it_comes() {
        let budget = Budget::new(300 << 10);
        let mut head = Vec::new();
        PacketHeader { data_len: 16 << 20, ..PacketHeader::default() }.put(0, &mut head);
        let mut buffer = PacketBuffer::new(&head, budget.take(buffer_len(&head, None)).unwrap());
        assert_eq!(buffer.run().unwrap(), []);
        assert!(budget.take(200 << 10).is_some(), "what is only claimed, others can have");
        let refused = loop {
            buffer.fill(|room| Ok(room.len().min(10_000))).unwrap();
            match buffer.run() {
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
        let budget = Budget::new(1 << 20);
        let mut stream = Vec::new();
        for seqno in 0..4 {
            PacketHeader { seqno, last: seqno == 1, ..PacketHeader::default() }.put(0, &mut stream);
        }
        let mut buffer = PacketBuffer::new(&stream, budget.take(buffer_len(&stream, None)).unwrap());
        let run = buffer.run().unwrap();
        assert_eq!(run.iter().map(|(_, frame)| frame.header.seqno).collect::<Vec<_>>(), [0, 1]);
    }

    /// Where memory is short a stream goes on with what was put by for it.
    #[test]
    fn packets_of_stock_clients_need_no_more_than_was_reserved() {
        let budget = Budget::new(100 << 10);
        let mut buffer = PacketBuffer::new(&[], budget.take(buffer_len(&[], None)).unwrap());
        let mut stream = Vec::new();
        for seqno in 0..100 {
            PacketHeader { seqno, data_len: 64 << 10, sync: true, ..PacketHeader::default() }.put(512, &mut stream);
            stream.extend(vec![seqno as u8; 512 + (64 << 10)]);
        }
        let (mut at, mut came) = (0, 0);
        while came < 100 {
            let run = buffer.run().unwrap();
            came += run.len();
            match run.last() {
                Some((place, frame)) => buffer.consume(place + frame.packet_len()),
                None => {
                    let got = buffer.fill(|room| {
                        let len = room.len().min(stream.len() - at);
                        room[..len].copy_from_slice(&stream[at..at + len]);
                        Ok(len)
                    });
                    at += got.unwrap();
                }
            }
        }
        assert!(buffer.bytes.len() <= STOCK_LEN);
    }
}
