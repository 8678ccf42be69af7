//! A packet that a writer keeps until it is acknowledged.

use std::ops::Range;
use wire::PacketHeader;

/// A packet as it goes over the wire, in the buffer in which it was made.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    header: PacketHeader,
    buffer: Vec<u8>,
    /// Where in the buffer it lies.
    place: Range<usize>,
}

impl Packet {
    /// A packet that lies in this place of the buffer, its header included.
    pub fn new(header: PacketHeader, buffer: Vec<u8>, place: Range<usize>) -> Self {
        assert!(place.start < place.end && place.end <= buffer.len(), "a packet at {place:?} of {}", buffer.len());
        Self { header, buffer, place }
    }

    /// A packet without data.
    pub fn empty(header: PacketHeader) -> Self {
        assert!(header.data_len == 0, "{} bytes of data were left out", header.data_len);
        let mut buffer = Vec::with_capacity(wire::PacketPrefix::LEN + PacketHeader::LEN_WITH_SYNC);
        header.put(0, &mut buffer);
        let place = 0..buffer.len();
        Self { header, buffer, place }
    }

    /// Says only that its writer lives.
    pub fn heartbeat() -> Self {
        Self::empty(PacketHeader { seqno: PacketHeader::HEARTBEAT, ..PacketHeader::default() })
    }

    pub fn header(&self) -> &PacketHeader {
        &self.header
    }

    pub fn seqno(&self) -> i64 {
        self.header.seqno
    }

    /// The block ends with it.
    pub fn is_last(&self) -> bool {
        self.header.last
    }

    /// All of it, as it is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.place.clone()]
    }

    /// First byte of the block behind this packet.
    pub fn end_offset(&self) -> u64 {
        self.header.offset as u64 + self.header.data_len as u64
    }

    /// The buffer, and where in it the packet lies.
    pub fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        (self.buffer, self.place)
    }
}
