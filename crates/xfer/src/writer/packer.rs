//! Bytes become packets: pure, so that every layout can be tested without a server.
//!
//! A packet begins on a chunk, and ends on one or with the block. After a flush in the middle of a chunk the next
//! packet begins where the bytes end, and has only the rest of that chunk, with one checksum of its own; the nodes join
//! the two.
//!
//! ```text
//! buffer:  ├─ head room ─┼─ room for sums ─┼─ data ───────────────┤
//! packet:          ╰ head ╯╰── sums (just before the data) ╯╰ data ╯      sent in one piece
//! ```

use super::packet::Packet;
use bytes::Bytes;
use std::sync::Arc;
use types::ChecksumSpec;
use wire::{PacketHeader, PacketPrefix};

/// How packets of one file are cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub spec: ChecksumSpec,
    /// Data bytes of a full packet: whole chunks.
    packet_len: usize,
    block_len: u64,
}

impl Plan {
    /// `packet_len` is rounded down to whole chunks, but one chunk always fits.
    pub fn new(spec: ChecksumSpec, packet_len: u32, block_len: u64) -> Self {
        let chunk_len = spec.chunk_len as usize;
        Self { spec, packet_len: (packet_len as usize / chunk_len).max(1) * chunk_len, block_len }
    }

    /// Data bytes that the packet beginning at `offset` may have.
    fn room(&self, offset: u64) -> usize {
        let chunk_len = u64::from(self.spec.chunk_len);
        let into_chunk = offset % chunk_len;
        let room = if into_chunk > 0 { chunk_len - into_chunk } else { self.packet_len as u64 };
        room.min(self.block_len - offset) as usize
    }

    fn data_at(&self) -> usize {
        HEAD_LEN_MAX + self.spec.sums_len(self.packet_len as u64) as usize
    }
}

const HEAD_LEN_MAX: usize = PacketPrefix::LEN + PacketHeader::LEN_WITH_SYNC;

/// Bytes of the longest packet, all of it, if `packet_len` bytes of data are wanted.
pub fn whole_len_max(spec: ChecksumSpec, packet_len: u32) -> u32 {
    let plan = Plan::new(spec, packet_len, 0);
    (plan.data_at() + plan.packet_len) as u32
}

/// A whole file: its bytes, and their checksums in front of them.
#[derive(Clone, Debug)]
pub struct Whole {
    pub body: Bytes,
    pub data_len: u32,
    pub spec: ChecksumSpec,
}

#[derive(Debug)]
pub struct Packer {
    plan: Plan,
    buffer: Vec<u8>,
    /// Where in the block the packet in the making begins, and how many bytes it has.
    offset: u64,
    len: usize,
    /// Buffers of packets that were acknowledged, youngest last: it is the one still in the processor's cache.
    spare: Vec<Vec<u8>>,
}

impl Packer {
    pub fn new(plan: Plan) -> Self {
        Self { plan, buffer: Vec::new(), offset: 0, len: 0, spare: Vec::new() }
    }

    /// Bytes of the current block so far.
    pub fn position(&self) -> u64 {
        self.offset + self.len as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn is_full(&self) -> bool {
        self.len == self.plan.room(self.offset)
    }

    pub fn space(&mut self) -> &mut [u8] {
        let at = self.plan.data_at();
        if self.buffer.is_empty() {
            self.buffer = self.spare.pop().unwrap_or_else(|| vec![0; at + self.plan.packet_len]);
        }
        let room = self.plan.room(self.offset);
        &mut self.buffer[at + self.len..at + room]
    }

    pub fn filled(&mut self, len: usize) {
        self.len += len;
        assert!(self.len <= self.plan.room(self.offset), "more bytes than the packet has room for");
    }

    /// Makes a packet of what is there, which may be nothing if only `sync` is wanted.
    pub fn pack(&mut self, seqno: i64, sync: bool) -> Arc<Packet> {
        self.space();
        let mut buffer = std::mem::take(&mut self.buffer);
        let data_at = self.plan.data_at();
        let header = PacketHeader { offset: self.offset as i64, seqno, last: false, data_len: self.len as i32, sync };
        // A packet that begins inside of a chunk stays inside of it, so its data is one piece under one checksum.
        let mut sums = Vec::new();
        self.plan.spec.compute(&buffer[data_at..data_at + self.len], &mut sums);
        let mut head = Vec::with_capacity(HEAD_LEN_MAX);
        header.put(sums.len() as u32, &mut head);
        let sums_at = data_at - sums.len();
        let start = sums_at - head.len();
        buffer[start..sums_at].copy_from_slice(&head);
        buffer[sums_at..data_at].copy_from_slice(&sums);
        self.offset += self.len as u64;
        let end = data_at + std::mem::take(&mut self.len);
        Arc::new(Packet::new(header, buffer, start..end))
    }

    /// All bytes so far, with their checksums in front of them, when none were sent yet.
    pub fn take_whole(&mut self) -> Whole {
        assert!(self.offset == 0, "a part of the block was sent");
        let data_len = self.len as u32;
        let packet = Arc::into_inner(self.pack(0, false)).expect("nobody else has seen it");
        self.start_block();
        let sums_len = self.plan.spec.sums_len(data_len.into()) as usize;
        let (buffer, place) = packet.into_parts();
        let start = place.end - data_len as usize - sums_len;
        Whole { body: Bytes::from(buffer).slice(start..place.end), data_len, spec: self.plan.spec }
    }

    /// The empty packet that ends the block.
    pub fn end(&self, seqno: i64, sync: bool) -> Arc<Packet> {
        assert!(self.len == 0, "the block ends before its bytes");
        let header = PacketHeader { offset: self.offset as i64, seqno, last: true, data_len: 0, sync };
        Arc::new(Packet::empty(header))
    }

    pub fn start_block(&mut self) {
        self.offset = 0;
    }

    /// Takes back the buffer of a packet that nobody holds any more.
    pub fn recycle(&mut self, spent: &mut Vec<Arc<Packet>>) {
        let whole = self.plan.data_at() + self.plan.packet_len;
        let free = spent.drain(..).filter_map(Arc::into_inner).map(|packet| packet.into_parts().0);
        self.spare.extend(free.filter(|buffer| buffer.len() == whole));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ChecksumKind;
    use wire::packet::{PacketFrame, Parsed};

    /// Feeds `len` bytes in steps of `step`, flushing after every byte count of `flushes`; gives offset and length of
    /// each packet.
    fn cut(plan: Plan, len: u64, step: usize, flushes: &[u64]) -> Vec<(i64, i32)> {
        let mut packer = Packer::new(plan);
        let mut packets = Vec::new();
        let mut whole = Vec::new();
        let mut pack = |packer: &mut Packer| {
            let packet = packer.pack(packets.len() as i64, false);
            let Parsed::Whole(frame) = PacketFrame::parse(packet.bytes()).unwrap() else { panic!("a short packet") };
            assert_eq!(&frame.header, packet.header());
            let (sums, data) = (&packet.bytes()[frame.sums.clone()], &packet.bytes()[frame.data.clone()]);
            assert_eq!(plan.spec.verify(data, sums), Ok(()));
            assert_eq!(sums.len() as u64, plan.spec.sums_len(data.len() as u64));
            whole.extend_from_slice(data);
            packets.push((packet.header().offset, packet.header().data_len));
            packer.recycle(&mut vec![packet]);
        };
        while packer.position() < len {
            let position = packer.position();
            let stop = flushes.iter().copied().filter(|flush| *flush > position).min().unwrap_or(len).min(len);
            let space = packer.space();
            let take = space.len().min(step).min((stop - position) as usize);
            for (place, byte) in space[..take].iter_mut().enumerate() {
                *byte = (position as usize + place) as u8;
            }
            packer.filled(take);
            if packer.is_full() || (packer.position() == stop && !packer.is_empty()) {
                pack(&mut packer);
            }
        }
        assert!(whole.iter().enumerate().all(|(place, byte)| *byte == place as u8) && whole.len() as u64 == len);
        packets
    }

    #[test]
    fn full_packets_of_whole_chunks_then_the_rest() {
        let plan = Plan::new(ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 }, 1100, 4096);
        for step in [1, 100, 512, 5000] {
            assert_eq!(cut(plan, 2500, step, &[]), [(0, 1024), (1024, 1024), (2048, 452)]);
            assert_eq!(cut(plan, 4096, step, &[]).len(), 4);
        }
    }

    #[test]
    fn a_small_file_is_taken_whole() {
        let spec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let mut packer = Packer::new(Plan::new(spec, 4096, 8192));
        for (len, chunk_count) in [(0, 0), (1, 1), (1300, 3)] {
            let bytes = vec![7; len];
            packer.space()[..len].copy_from_slice(&bytes);
            packer.filled(len);
            let whole = packer.take_whole();
            assert_eq!((whole.data_len as usize, whole.body.len()), (len, len + 4 * chunk_count));
            assert_eq!(&whole.body[4 * chunk_count..], &bytes[..]);
            assert_eq!(spec.verify(&bytes, &whole.body[..4 * chunk_count]), Ok(()));
            assert_eq!(packer.position(), 0);
        }
    }

    #[test]
    fn after_a_flush_inside_a_chunk_a_packet_ends_that_chunk() {
        let plan = Plan::new(ChecksumSpec { kind: ChecksumKind::Crc32, chunk_len: 512 }, 1024, 4096);
        assert_eq!(cut(plan, 1600, 64, &[100, 300]), [(0, 100), (100, 200), (300, 212), (512, 1024), (1536, 64)]);
        // A flush on a chunk's end changes nothing for the next packet.
        assert_eq!(cut(plan, 1600, 64, &[512]), [(0, 512), (512, 1024), (1536, 64)]);
    }

    #[test]
    fn a_block_ends_where_it_must_and_chunks_may_be_larger_than_packets() {
        let spec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 4096 };
        assert_eq!(cut(Plan::new(spec, 1000, 8192), 8192, 3000, &[]), [(0, 4096), (4096, 4096)]);
        let null = ChecksumSpec { kind: ChecksumKind::Null, chunk_len: 512 };
        assert_eq!(cut(Plan::new(null, 1024, 1536), 1536, 3000, &[]), [(0, 1024), (1024, 512)]);
        let heartbeat = Packet::heartbeat();
        let Parsed::Whole(frame) = PacketFrame::parse(heartbeat.bytes()).unwrap() else { panic!("a short packet") };
        assert!(frame.header.is_heartbeat() && frame.data.is_empty());
    }
}
