//! The one buffer of a write stream: bytes as they came, packet behind packet.

use crate::budget::{Budget, Reservation};
use std::io;
use wire::packet::Parsed;
use wire::{PacketFrame, WireError};

/// What a stream's buffer is at first: most blocks that are small fit with all that is around them.
const FIRST_LEN: usize = 16 << 10;
/// What it becomes with the first packet that does not: several of the 64 KiB packets that all stock clients send, and well inside a core's
/// second-level cache, so that what is received is still there when it is forwarded, verified and written.
const BUFFER_LEN: usize = 256 << 10;
/// Packets taken at once. Those of stock clients never come to so many; a writer of tiny ones shall not get far ahead of its acks.
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

impl PacketBuffer {
    /// A buffer that begins with `came`. `None` if the budget has no room.
    pub(super) fn new(came: &[u8], budget: &Budget) -> Option<Self> {
        // What it may become as well: a stream is refused before it begins, not in the middle.
        let reservation = budget.take(BUFFER_LEN.max(came.len()) as u64)?;
        let mut bytes = vec![0; FIRST_LEN.max(came.len())];
        bytes[..came.len()].copy_from_slice(came);
        Some(Self { bytes, start: 0, end: came.len(), filled: false, reservation })
    }

    /// The packets the buffer begins with that are here to their end, each with its place in [`PacketBuffer::bytes`]. If there is none,
    /// there is room for more of the first.
    pub(super) fn run(&mut self) -> Result<Vec<(usize, PacketFrame)>, BufferError> {
        let mut run = Vec::new();
        let mut at = self.start;
        while run.len() < RUN_COUNT_MAX {
            match PacketFrame::parse(&self.bytes[at..self.end]) {
                Ok(Parsed::Whole(frame)) => {
                    let len = frame.packet_len();
                    run.push((at, frame));
                    at += len;
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
        if grows || self.start + len > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if grows || len > self.bytes.len() {
                let len = len.max(BUFFER_LEN);
                if !self.reservation.grow_to(len as u64) {
                    return Err(BufferError::Memory(len));
                }
                self.bytes.resize(len, 0);
            }
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
            let mut buffer = PacketBuffer::new(&stream[..10], &budget).unwrap();
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
    fn a_packet_above_the_budget_is_refused_before_its_bytes_come() {
        let budget = Budget::new(300 << 10);
        let mut head = Vec::new();
        PacketHeader { data_len: 1 << 20, ..PacketHeader::default() }.put(0, &mut head);
        let mut buffer = PacketBuffer::new(&head, &budget).unwrap();
        assert!(matches!(buffer.run(), Err(BufferError::Memory(_))));
        assert!(PacketBuffer::new(&[], &budget).is_none(), "and a second stream as well");
    }
}
