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

    /// The packet the buffer begins with, if it is here to its end. If not, there is room for more of it.
    pub(super) fn packet(&mut self) -> Result<Option<PacketFrame>, BufferError> {
        match PacketFrame::parse(&self.bytes[self.start..self.end])? {
            Parsed::Whole(frame) => Ok(Some(frame)),
            Parsed::Needs(len) => {
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
                Ok(None)
            }
        }
    }

    /// The bytes of a packet that [`PacketBuffer::packet`] found.
    pub(super) fn bytes(&self, frame: &PacketFrame) -> &[u8] {
        &self.bytes[self.start..self.start + frame.packet_len()]
    }

    pub(super) fn consume(&mut self, frame: &PacketFrame) {
        self.start += frame.packet_len();
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
            for (seqno, len) in (0u8..).zip(lens) {
                let frame = loop {
                    if let Some(frame) = buffer.packet().unwrap() {
                        break frame;
                    }
                    let got = buffer.fill(|room| {
                        let len = room.len().min(step).min(stream.len() - at);
                        room[..len].copy_from_slice(&stream[at..at + len]);
                        Ok(len)
                    });
                    at += got.unwrap();
                };
                let data = &buffer.bytes(&frame)[frame.data.clone()];
                assert!(data.len() == len as usize && data.iter().all(|byte| *byte == seqno));
                buffer.consume(&frame);
            }
        }
        assert!(budget.take(1 << 20).is_some(), "all came back");
    }

    #[test]
    fn a_packet_above_the_budget_is_refused_before_its_bytes_come() {
        let budget = Budget::new(300 << 10);
        let mut head = Vec::new();
        PacketHeader { data_len: 1 << 20, ..PacketHeader::default() }.put(0, &mut head);
        let mut buffer = PacketBuffer::new(&head, &budget).unwrap();
        assert!(matches!(buffer.packet(), Err(BufferError::Memory(_))));
        assert!(PacketBuffer::new(&[], &budget).is_none(), "and a second stream as well");
    }
}
