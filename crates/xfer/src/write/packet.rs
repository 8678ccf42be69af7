//! What a link must know of a packet, and which packets no honest writer sends.

use types::{ChecksumKind, ChecksumSpec};
use wire::{PacketFrame, PacketHeader};

/// A packet that has arrived whole. The bytes stay with whoever received them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Its length of data is not negative.
    pub header: PacketHeader,
    /// Bytes of checksums; none if the writer leaves it to the nodes to compute them.
    pub sums_len: u32,
}

impl From<&PacketFrame> for Packet {
    fn from(frame: &PacketFrame) -> Self {
        Self { header: frame.header, sums_len: frame.sums.len() as u32 }
    }
}

/// Why a packet cannot be stored whatever we do. The writer is wrong, so its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPacket {
    #[error("packet {seqno} at offset {offset}, but only {received} bytes came before it")]
    Gap { seqno: i64, offset: i64, received: u64 },
    #[error("packet {seqno} at offset {offset} starts inside a chunk and goes on after the chunk's end")]
    Unaligned { seqno: i64, offset: i64 },
    #[error("packet {seqno} has {sums_len} bytes of checksums for {data_len} bytes of data")]
    Sums { seqno: i64, sums_len: u32, data_len: u32 },
    #[error("packet {seqno} ends the block at {end}, but {received} bytes came before it")]
    Short { seqno: i64, end: u64, received: u64 },
    #[error("packet {seqno} after the last one")]
    AfterLast { seqno: i64 },
}

impl Packet {
    /// Where the block ends with this packet, if it may follow `received` bytes.
    ///
    /// Overlap is normal: after a flush inside a chunk the writer sends the chunk again from its start, and after a
    /// recovery it sends packets again that may be here already.
    pub fn end(&self, spec: ChecksumSpec, received: u64) -> Result<u64, BadPacket> {
        let PacketHeader { seqno, offset, data_len, last, .. } = self.header;
        let (data_len, sums_len) = (u32::try_from(data_len).expect("a frame's data has a length"), self.sums_len);
        let start = u64::try_from(offset).ok().filter(|start| *start <= received);
        let start = start.ok_or(BadPacket::Gap { seqno, offset, received })?;
        let chunk_len = u64::from(spec.chunk_len);
        let into_chunk = start % chunk_len;
        if into_chunk != 0 && into_chunk + u64::from(data_len) > chunk_len {
            return Err(BadPacket::Unaligned { seqno, offset });
        }
        let left_out = sums_len == 0 || spec.kind == ChecksumKind::Null;
        let expected = if left_out { 0 } else { spec.sums_len(data_len.into()) };
        if u64::from(sums_len) != expected {
            return Err(BadPacket::Sums { seqno, sums_len, data_len });
        }
        let end = start + u64::from(data_len);
        // The block would be put longer than its writer says that it is.
        if last && end < received {
            return Err(BadPacket::Short { seqno, end, received });
        }
        Ok(end)
    }
}
