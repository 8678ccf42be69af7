//! One replica in a container's pack: a record that tells everything by itself.
//!
//! ```text
//! 0       4     5     6     7    8           12         16       24           32     40     48         52         60    64
//! ┌───────┬─────┬─────┬─────┬────┬───────────┬──────────┬────────┬────────────┬──────┬──────┬──────────┬──────────┬─────┬───┐
//! │ LVPK  │ ver │ dead│ sum │ 0  │ chunk_len │ data_len │ block  │ generation │ file │ home │ body_crc │    0     │ crc │ … │
//! │       │ u8  │ u8  │ kind│    │ u32       │ u32      │ u64    │ u64        │ u64  │ u64  │ u32      │          │ u32 │   │
//! └───────┴─────┴─────┴─────┴────┴───────────┴──────────┴────────┴────────────┴──────┴──────┴──────────┴──────────┴─────┴───┘
//! … = sums (4 B a chunk) │ data │ zeros up to a multiple of 64, so that no header lies on two sectors
//! body_crc: CRC-32C of sums and data        crc: CRC-32C of salt, container, offset, and the 60 bytes before it, `dead` taken as 0
//! dead: 0, or 0xdd once the replica was deleted: one byte, so that burying a record is whole or did not happen
//! ```
//!
//! Promise: bytes that look like a record are one only where it was written. Where a header is lost, the body behind it
//! is looked through for the next record, and a client chose that body: a pack that was stored as a file, or made
//! bytes. None of it fits the volume's salt, which no client is told, and its place in the pack.

use crate::header::{be32, be64};
use crate::replica::Identity;
use crate::version::Salt;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, InodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub identity: Identity,
    pub data_len: u32,
    pub body_crc: u32,
    pub dead: bool,
}

/// Where a record lies, which its checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub salt: Salt,
    pub container: ContainerId,
    pub offset: u64,
}

/// Records that are appended together, one behind the other. Their headers are written when it is known where that is.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    headers: Vec<(u64, RecordHeader)>,
}

const MAGIC: [u8; 4] = *b"LVPK";
const VERSION: u8 = 2;
const DEAD: u8 = 0xdd;

/// Longest replica a record takes, whatever the volume is told: a scan holds one in memory.
pub const PACK_LEN_MAX: u64 = 16 << 20;

impl RecordHeader {
    pub(crate) const LEN: usize = 64;
    /// Records start at multiples of this; it divides every sector length.
    pub(crate) const ALIGN: u64 = 64;
    /// The longest that a header can claim: a checksum takes four bytes, for one byte of data at least.
    pub(crate) const RECORD_LEN_MAX: u64 = Self::LEN as u64 + 5 * PACK_LEN_MAX;
    /// Where the one byte lies that buries a record.
    pub(crate) const DEAD_OFFSET: u64 = 5;
    pub(crate) const DEAD_MARK: [u8; 1] = [DEAD];

    pub(crate) fn sums_len(&self) -> u64 {
        self.identity.checksum.sums_len(self.data_len.into())
    }

    /// Where sums, data and the next record start, counted from this record.
    pub(crate) fn sums_offset(&self) -> u64 {
        Self::LEN as u64
    }

    pub(crate) fn data_offset(&self) -> u64 {
        Self::LEN as u64 + self.sums_len()
    }

    pub(crate) fn record_len(&self) -> u64 {
        (self.data_offset() + u64::from(self.data_len)).next_multiple_of(Self::ALIGN)
    }

    pub(crate) fn encode(&self, seat: Seat) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[6] = self.identity.checksum.kind as u8;
        bytes[8..12].copy_from_slice(&self.identity.checksum.chunk_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.data_len.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.identity.block.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.identity.generation.0.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.identity.file.0.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.identity.home.0.to_be_bytes());
        bytes[48..52].copy_from_slice(&self.body_crc.to_be_bytes());
        let sum = seat.sum(&bytes);
        bytes[60..].copy_from_slice(&sum.to_be_bytes());
        if self.dead {
            bytes[5] = DEAD;
        }
        bytes
    }

    /// `None` if these are not the bytes of a record we wrote there.
    pub(crate) fn decode(bytes: &[u8; Self::LEN], seat: Seat) -> Option<Self> {
        let mut plain = *bytes;
        plain[5] = 0;
        let sound = bytes[..4] == MAGIC && bytes[4] == VERSION && matches!(bytes[5], 0 | DEAD);
        if !sound || seat.sum(&plain) != be32(&bytes[60..]) {
            return None;
        }
        let data_len = be32(&bytes[12..]);
        let identity = Identity {
            block: BlockId(be64(&bytes[16..])),
            generation: Generation(be64(&bytes[24..])),
            file: InodeId(be64(&bytes[32..])),
            home: ContainerId(be64(&bytes[40..])),
            checksum: ChecksumSpec::new(ChecksumKind::from_number(bytes[6].into())?, be32(&bytes[8..]))?,
        };
        let header = Self { identity, data_len, body_crc: be32(&bytes[48..]), dead: bytes[5] == DEAD };
        (u64::from(data_len) <= PACK_LEN_MAX).then_some(header)
    }
}

impl Seat {
    /// Of a header with the mark of a living record.
    pub(crate) fn sum(&self, header: &[u8; RecordHeader::LEN]) -> u32 {
        let mut bytes = [0; 92];
        bytes[..16].copy_from_slice(&self.salt.0);
        bytes[16..24].copy_from_slice(&self.container.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_be_bytes());
        bytes[32..].copy_from_slice(&header[..60]);
        ChecksumKind::Crc32c.of(&bytes)
    }
}

impl Records {
    /// The whole record of a replica. Returns where it starts among these.
    pub(crate) fn push(&mut self, identity: Identity, data: &[u8], sums: &[u8]) -> u64 {
        assert!(data.len() as u64 <= PACK_LEN_MAX, "a replica of {} bytes is not packed", data.len());
        assert_eq!(sums.len() as u64, identity.checksum.sums_len(data.len() as u64), "a sum for each chunk");
        let start = self.bytes.len();
        let body = start + RecordHeader::LEN;
        self.bytes.resize(body, 0);
        self.bytes.extend_from_slice(sums);
        self.bytes.extend_from_slice(data);
        let body_crc = ChecksumKind::Crc32c.of(&self.bytes[body..]);
        let header = RecordHeader { identity, data_len: data.len() as u32, body_crc, dead: false };
        self.bytes.resize(start + header.record_len() as usize, 0);
        self.headers.push((start as u64, header));
        start as u64
    }

    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.headers.iter().map(|(start, _)| *start)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes, for the first to lie at `first`.
    pub(crate) fn bytes_at(&mut self, first: Seat) -> &[u8] {
        for (start, header) in &self.headers {
            let seat = Seat { offset: first.offset + start, ..first };
            self.bytes[*start as usize..][..RecordHeader::LEN].copy_from_slice(&header.encode(seat));
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAT: Seat = Seat { salt: Salt([7; 16]), container: ContainerId(7), offset: 640 };

    fn identity() -> Identity {
        Identity {
            block: BlockId::new(ContainerId(7), 9),
            generation: Generation(1001),
            file: InodeId(16_400),
            home: ContainerId(0),
            checksum: ChecksumSpec::DEFAULT,
        }
    }

    fn record(data: &[u8]) -> (RecordHeader, Vec<u8>) {
        let (mut sums, mut records) = (Vec::new(), Records::default());
        identity().checksum.compute(data, &mut sums);
        records.push(identity(), data, &sums);
        (records.headers[0].1, records.bytes_at(SEAT).to_vec())
    }

    #[test]
    fn a_record_tells_where_everything_lies() {
        let data: Vec<u8> = (0..1000u32).map(|at| at as u8).collect();
        let (header, bytes) = record(&data);
        assert_eq!(bytes.len() as u64, header.record_len());
        assert_eq!(bytes.len() as u64 % RecordHeader::ALIGN, 0);
        assert_eq!(&bytes[header.data_offset() as usize..][..1000], &data[..]);
        assert_eq!(RecordHeader::decode(bytes[..64].try_into().unwrap(), SEAT), Some(header));
    }

    #[test]
    fn one_byte_buries_a_record_and_nothing_else_passes() {
        let (header, bytes) = record(b"");
        let mut bytes: [u8; 64] = bytes[..64].try_into().unwrap();
        bytes[RecordHeader::DEAD_OFFSET as usize] = RecordHeader::DEAD_MARK[0];
        assert_eq!(RecordHeader::decode(&bytes, SEAT), Some(RecordHeader { dead: true, ..header }));
        assert_eq!(bytes, RecordHeader { dead: true, ..header }.encode(SEAT));
        for bit in 0..64 * 8 {
            let mut bad = header.encode(SEAT);
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::decode(&bad, SEAT), None, "bit {bit}");
        }
    }

    /// The same bytes are no record in another place, pack or volume.
    #[test]
    fn a_record_is_one_only_where_it_was_written() {
        let header = record(b"x").0.encode(SEAT);
        assert!(RecordHeader::decode(&header, SEAT).is_some());
        let elsewhere = [
            Seat { offset: 704, ..SEAT },
            Seat { container: ContainerId(8), ..SEAT },
            Seat { salt: Salt([8; 16]), ..SEAT },
        ];
        assert!(elsewhere.iter().all(|seat| RecordHeader::decode(&header, *seat).is_none()));
    }

    #[test]
    fn a_header_is_written_as_it_is_drawn() {
        let want = "4c56504b02000200000002000000000300000000007000090000000000\
                    0003e900000000000040100000000000000000ef339ec600000000000000003b15cc57";
        let have: String = record(b"abc").0.encode(SEAT).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(have, want);
    }
}
