//! Packets: the same layout for reads and for writes.

use crate::error::WireError;
use prost::Message;
use std::ops::Range;
use types::limits::PACKET_LEN_MAX;

/// The six bytes that open every packet of HDFS data transfer. Big-endian.
///
/// ```text
/// 0              4         6              6 + header_len
/// ┌──────────────┬─────────┬──────────────┬────────────────┬────────────────────┐
/// │ payload  u32 │ hdr u16 │ PacketHeader │ 4 B each chunk │ data: last, so it  │
/// │              │         │ (protobuf)   │ (checksums)    │ need not be copied │
/// └──────────────┴─────────┴──────────────┴────────────────┴────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPrefix {
    /// Checksums and data. The wire counts its own four bytes as well; we stop that here.
    pub payload_len: u32,
    pub header_len: u16,
}

/// Two headers exist, of 25 and of 27 bytes; the rest is room for fields that some client may add.
const HEADER_LEN_MAX: u16 = 1024;

impl PacketPrefix {
    pub const LEN: usize = 6;

    pub fn decode(bytes: [u8; Self::LEN]) -> Result<Self, WireError> {
        let [p0, p1, p2, p3, h0, h1] = bytes;
        let counted = u32::from_be_bytes([p0, p1, p2, p3]);
        let header_len = u16::from_be_bytes([h0, h1]);
        // A stranger chose these numbers: bound them before anyone allocates.
        let payload_len = counted
            .checked_sub(4)
            .filter(|len| *len <= PACKET_LEN_MAX && header_len <= HEADER_LEN_MAX)
            .ok_or(WireError::PacketLength { payload: counted, header: header_len })?;
        Ok(Self { payload_len, header_len })
    }

    pub fn encode(self) -> [u8; Self::LEN] {
        let [p0, p1, p2, p3] = (self.payload_len + 4).to_be_bytes();
        let [h0, h1] = self.header_len.to_be_bytes();
        [p0, p1, p2, p3, h0, h1]
    }

    /// Bytes of the whole packet, this prefix included.
    pub fn packet_len(self) -> usize {
        Self::LEN + usize::from(self.header_len) + self.payload_len as usize
    }
}

/// What a packet says of itself. The fields have fixed widths, so the message has 25 bytes, or 27 with `sync`.
///
/// ```text
/// 0    1                    9    10                  18   19     20   21            25   26     27
/// ┌────┬────────────────────┬────┬───────────────────┬────┬──────┬────┬─────────────┬────┬──────┐
/// │ 09 │ offset  i64 little │ 11 │ seqno  i64 little │ 18 │ last │ 25 │ data_len    │ 28 │ sync │
/// │    │ -endian            │    │ -endian           │    │ u8   │    │ i32 little  │    │ u8   │
/// └────┴────────────────────┴────┴───────────────────┴────┴──────┴────┴─────────────┴────┴──────┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// Offset of the first data byte in the block.
    pub offset: i64,
    /// 0, 1, 2 …; [`PacketHeader::HEARTBEAT`] for a packet that only says that its writer lives.
    pub seqno: i64,
    /// True only on the empty packet that ends a block or a read.
    pub last: bool,
    /// Data bytes; checksums are not counted.
    pub data_len: i32,
    /// The writer asks that the bytes be on disk before the ack. Left out when false: libhdfs3 takes a read packet's
    /// header to have 25 bytes.
    pub sync: bool,
}

/// For headers that are in another order, or have fields we do not know.
#[derive(Clone, PartialEq, Message)]
struct AnyPacketHeader {
    #[prost(sfixed64, required, tag = "1")]
    offset: i64,
    #[prost(sfixed64, required, tag = "2")]
    seqno: i64,
    #[prost(bool, required, tag = "3")]
    last: bool,
    #[prost(sfixed32, required, tag = "4")]
    data_len: i32,
    #[prost(bool, optional, tag = "5")]
    sync: Option<bool>,
}

impl PacketHeader {
    pub const HEARTBEAT: i64 = -1;
    /// Bytes of the header without and with `sync`.
    pub const LEN: usize = 25;
    pub const LEN_WITH_SYNC: usize = 27;

    pub fn is_heartbeat(&self) -> bool {
        self.seqno == Self::HEARTBEAT
    }

    pub fn encoded_len(&self) -> usize {
        if self.sync { Self::LEN_WITH_SYNC } else { Self::LEN }
    }

    /// Appends prefix and header of a packet that has `sums_len` bytes of checksums. `data_len` must not be negative.
    pub fn put(&self, sums_len: u32, out: &mut Vec<u8>) {
        assert!(self.data_len >= 0, "a packet of ours with {} bytes of data", self.data_len);
        let prefix =
            PacketPrefix { payload_len: sums_len + self.data_len as u32, header_len: self.encoded_len() as u16 };
        out.extend_from_slice(&prefix.encode());
        out.push(0x09);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.push(0x11);
        out.extend_from_slice(&self.seqno.to_le_bytes());
        out.extend_from_slice(&[0x18, self.last.into(), 0x25]);
        out.extend_from_slice(&self.data_len.to_le_bytes());
        if self.sync {
            out.extend_from_slice(&[0x28, 1]);
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Self::decode_usual(bytes).map_or_else(|| Self::decode_any(bytes), Ok)
    }

    /// The one form that all known clients send.
    fn decode_usual(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<{ Self::LEN }>()?;
        let [
            0x09,
            o0,
            o1,
            o2,
            o3,
            o4,
            o5,
            o6,
            o7,
            0x11,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            0x18,
            last,
            0x25,
            d0,
            d1,
            d2,
            d3,
        ] = *fixed
        else {
            return None;
        };
        let sync = match rest {
            [] => 0,
            [0x28, sync] => *sync,
            _ => return None,
        };
        (last <= 1 && sync <= 1).then_some(Self {
            offset: i64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            seqno: i64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            last: last == 1,
            data_len: i32::from_le_bytes([d0, d1, d2, d3]),
            sync: sync == 1,
        })
    }

    fn decode_any(bytes: &[u8]) -> Result<Self, WireError> {
        let any: AnyPacketHeader = crate::delimited::decode(bytes, "packet header")?;
        Ok(Self {
            offset: any.offset,
            seqno: any.seqno,
            last: any.last,
            data_len: any.data_len,
            sync: any.sync.unwrap_or(false),
        })
    }
}

/// Where the parts of one packet lie in a buffer that begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFrame {
    pub header: PacketHeader,
    pub sums: Range<usize>,
    /// Ends where the packet ends.
    pub data: Range<usize>,
}

/// What the bytes so far say of the packet they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The buffer must hold this many bytes before more can be said; the packet's length, once that is known.
    Needs(usize),
    Whole(PacketFrame),
}

impl PacketFrame {
    pub fn parse(bytes: &[u8]) -> Result<Parsed, WireError> {
        let Some(prefix) = bytes.first_chunk::<{ PacketPrefix::LEN }>() else {
            return Ok(Parsed::Needs(PacketPrefix::LEN));
        };
        let prefix = PacketPrefix::decode(*prefix)?;
        let Some(packet) = bytes.get(..prefix.packet_len()) else { return Ok(Parsed::Needs(prefix.packet_len())) };
        let sums_at = PacketPrefix::LEN + usize::from(prefix.header_len);
        let header = PacketHeader::decode(&packet[PacketPrefix::LEN..sums_at])?;
        let sums_len = u32::try_from(header.data_len)
            .ok()
            .and_then(|data_len| prefix.payload_len.checked_sub(data_len))
            .ok_or(WireError::PacketData { data: header.data_len, payload: prefix.payload_len })?;
        let data_at = sums_at + sums_len as usize;
        Ok(Parsed::Whole(Self { header, sums: sums_at..data_at, data: data_at..packet.len() }))
    }

    /// Bytes of the whole packet.
    pub fn packet_len(&self) -> usize {
        self.data.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(header: PacketHeader, sums: &[u8], data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header.put(sums.len() as u32, &mut out);
        out.extend_from_slice(sums);
        out.extend_from_slice(data);
        out
    }

    /// Bytes as Hadoop's PacketHeader writes them: the end of a block after 5 packets, 300,000 bytes.
    #[test]
    fn golden_end_packet() {
        let end = PacketHeader { offset: 300_000, seqno: 5, last: true, data_len: 0, sync: false };
        let bytes = frame(end, &[], &[]);
        let golden = [
            0, 0, 0, 4, 0, 25, 0x09, 0xe0, 0x93, 0x04, 0, 0, 0, 0, 0, 0x11, 5, 0, 0, 0, 0, 0, 0, 0, 0x18, 1, 0x25, 0,
            0, 0, 0,
        ];
        assert_eq!(bytes, golden);
        assert_eq!(bytes.len(), 31, "libhdfs3 counts on it");
        let heartbeat = PacketHeader { seqno: PacketHeader::HEARTBEAT, sync: true, ..Default::default() };
        let bytes = frame(heartbeat, &[], &[]);
        assert_eq!((bytes.len(), &bytes[15..24]), (33, &[0x11, 255, 255, 255, 255, 255, 255, 255, 255][..]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bytes in [[0, 0, 0, 3, 0, 25], [1, 0, 0, 5, 0, 25], [255, 255, 255, 255, 0, 25], [0, 0, 0, 4, 255, 255]] {
            assert!(PacketPrefix::decode(bytes).is_err(), "{bytes:?}");
        }
        let header = PacketHeader { data_len: 9, ..Default::default() };
        let mut bytes = frame(header, &[], &[7; 9]);
        bytes[27] = 10; // one byte of data more than the payload has
        assert_eq!(PacketFrame::parse(&bytes), Err(WireError::PacketData { data: 10, payload: 9 }));
        bytes[27..31].copy_from_slice(&(-1i32).to_le_bytes());
        assert_eq!(PacketFrame::parse(&bytes), Err(WireError::PacketData { data: -1, payload: 9 }));
    }

    #[test]
    fn fields_in_another_order_are_understood() {
        let mut usual = Vec::new();
        PacketHeader { offset: 7, seqno: 3, last: false, data_len: 5, sync: true }.put(0, &mut usual);
        let fields = &usual[PacketPrefix::LEN..];
        let mut turned = fields[25..].to_vec();
        turned.extend_from_slice(&[0x98, 0x06, 1]); // field 99, which nobody knows
        turned.extend_from_slice(&fields[..25]);
        assert_eq!(PacketHeader::decode(&turned), PacketHeader::decode(fields));
    }

    proptest! {
        #[test]
        fn a_packet_is_found_again(
            offset in any::<i64>(), seqno in any::<i64>(), last: bool, sync: bool,
            sums in proptest::collection::vec(any::<u8>(), 0..20),
            data in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let header = PacketHeader { offset, seqno, last, data_len: data.len() as i32, sync };
            let mut bytes = frame(header, &sums, &data);
            for short in 0..bytes.len() {
                let parsed = PacketFrame::parse(&bytes[..short]).unwrap();
                let needs = if short < 6 { 6 } else { bytes.len() };
                prop_assert_eq!(parsed, Parsed::Needs(needs));
            }
            let whole = bytes.len();
            bytes.push(9);
            let Parsed::Whole(found) = PacketFrame::parse(&bytes).unwrap() else { panic!("whole") };
            prop_assert_eq!(found.header, header);
            prop_assert_eq!(found.packet_len(), whole);
            prop_assert_eq!(&bytes[found.sums], &sums[..]);
            prop_assert_eq!(&bytes[found.data], &data[..]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), len in 0u8..40) {
            let _ = PacketFrame::parse(&bytes);
            let _ = PacketHeader::decode(&bytes);
            let mut near = vec![0, 0, 0, len, 0, 25];
            near.extend(bytes);
            let _ = PacketFrame::parse(&near);
        }
    }
}
