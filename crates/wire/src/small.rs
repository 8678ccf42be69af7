//! A small block in one request (op 200, ours): header, checksums and bytes at once, and one answer.
//!
//! ```text
//! client ──[block]──▶ first node ──[block]──▶ second node      the first writes its own replica and sends
//!        ◀─[answer]─              └─[block]──▶ third node       to all others at the same time
//! ```
//!
//! A connection that has carried one of these carries nothing else: several requests may be under way on it, each with
//! a number, and the answers come in any order.

use crate::delimited;
use crate::error::WireError;
use crate::op::{Op, OpHeader};
pub use crate::proto::{SmallAnswer, SmallWrite};
use std::fmt;
use std::ops::Range;
use types::limits::{REPLICATION_MAX, SMALL_WRITE_LEN_MAX};
use types::{BlockId, ChecksumKind, ChecksumSpec};

/// Longest header of a request: the addresses of some thousand nodes would fit.
pub const HEADER_LEN_MAX: usize = 64 << 10;
/// Longest answer: the numbers of all nodes, and a text.
pub const ANSWER_LEN_MAX: usize = 16 << 10;

/// A request in the bytes that came.
///
/// ```text
/// 0       2     3
/// ┌───────┬─────┬────────────────────────┬────────────────────┬──────────┐
/// │ 28    │ 200 │ SmallWrite, delimited  │ 4 B each chunk     │ data     │
/// │ u16   │ u8  │                        │ (checksums)        │ (≤ 4 MiB)│
/// └───────┴─────┴────────────────────────┴────────────────────┴──────────┘
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SmallFrame {
    pub header: SmallWrite,
    pub spec: ChecksumSpec,
    /// Checksums and, behind them, data: where they lie in the bytes.
    pub sums: Range<usize>,
    pub data: Range<usize>,
}

/// What the front of some bytes is.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// All of the header is here; the frame ends where its data does, which may be behind what came.
    Frame(SmallFrame),
    /// More bytes must come before the header can be read.
    Partial,
}

impl fmt::Debug for SmallWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = BlockId(self.block);
        f.debug_struct("SmallWrite").field("number", &self.number).field("block", &block).finish_non_exhaustive()
    }
}

impl SmallWrite {
    /// The bytes of a request up to its checksums.
    pub fn front(&self) -> Vec<u8> {
        let mut bytes = OpHeader { op: Op::WriteSmall }.encode().to_vec();
        delimited::put(self, &mut bytes);
        bytes
    }
}

impl SmallFrame {
    /// Reads the front of a request. Every length in what it gives is within its bound.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, WireError> {
        let Some(op) = bytes.first_chunk::<{ OpHeader::LEN }>() else { return Ok(Parsed::Partial) };
        let op = OpHeader::decode(*op)?.op;
        if op != Op::WriteSmall {
            let reason = format!("operation {} on a connection for small writes", op.number());
            return Err(WireError::Message { what: "small write", reason });
        }
        let found = delimited::split(&bytes[OpHeader::LEN..], "header of a small write", HEADER_LEN_MAX)?;
        let Some((message, len)) = found else { return Ok(Parsed::Partial) };
        let header: SmallWrite = delimited::decode(message, "header of a small write")?;
        let (data_len, max) = (u64::from(header.data_len), u64::from(SMALL_WRITE_LEN_MAX));
        if data_len > max {
            return Err(WireError::TooLong { what: "small write", len: data_len, max });
        }
        if header.targets.len() >= usize::from(REPLICATION_MAX) {
            let (len, max) = (header.targets.len() as u64, u64::from(REPLICATION_MAX) - 1);
            return Err(WireError::TooLong { what: "list of targets", len, max });
        }
        let kind = i32::try_from(header.checksum_kind).ok().and_then(ChecksumKind::from_number);
        let spec = kind.and_then(|kind| ChecksumSpec::new(kind, header.chunk_len)).ok_or_else(|| {
            let reason = format!("checksum {} of {} bytes", header.checksum_kind, header.chunk_len);
            WireError::Message { what: "small write", reason }
        })?;
        let sums_at = OpHeader::LEN + len;
        // Chunks of one byte make this the longest part, four times the data: still bounded.
        let data_at = sums_at + spec.sums_len(data_len) as usize;
        let data = data_at..data_at + data_len as usize;
        Ok(Parsed::Frame(Self { header, spec, sums: sums_at..data_at, data }))
    }

    /// Bytes of the whole request.
    pub fn len(&self) -> usize {
        self.data.end
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

/// How many of `count` nodes are enough for an answer when the rest is late.
pub fn majority(count: usize) -> usize {
    count / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message;

    fn header() -> SmallWrite {
        SmallWrite {
            number: 3,
            block: 5 << 20 | 7,
            generation: 1001,
            data_len: 600,
            checksum_kind: 2,
            chunk_len: 512,
            pool: "BP".into(),
            token: bytes::Bytes::from_static(&[8, 0]),
            targets: vec!["10.0.0.2:9866".into()],
            synced: false,
            password: bytes::Bytes::new(),
        }
    }

    /// The bytes are fixed: nodes and clients of two versions talk to each other.
    #[test]
    fn golden_request_and_answer() {
        let front = header().front();
        let golden: &[u8] = &[
            0, 28, 200, 44, 0x08, 3, 0x10, 0x87, 0x80, 0xc0, 0x02, 0x18, 0xe9, 0x07, 0x20, 0xd8, 0x04, 0x28, 2, 0x30,
            0x80, 0x04, 0x3a, 2, b'B', b'P', 0x42, 2, 8, 0, 0x4a, 13, b'1', b'0', b'.', b'0', b'.', b'0', b'.', b'2',
            b':', b'9', b'8', b'6', b'6',
        ];
        assert_eq!(front[4..], golden[4..]);
        assert_eq!(usize::from(front[3]), front.len() - 4);
        let Ok(Parsed::Frame(frame)) = SmallFrame::parse(&front) else { panic!("not understood") };
        let at = front.len();
        assert_eq!(
            frame,
            SmallFrame { header: header(), spec: ChecksumSpec::DEFAULT, sums: at..at + 8, data: at + 8..at + 608 }
        );
        let answer = SmallAnswer { number: 3, refusal: String::new(), have: vec![0, 2], status: 0 };
        assert_eq!(answer.encode_to_vec(), [0x08, 3, 0x1a, 2, 0, 2]);
        let proven = SmallWrite { password: bytes::Bytes::from_static(&[9, 9]), ..header() };
        assert_eq!(proven.front(), [&[0, 28, 200, 45][..], &golden[4..], &[0x5a, 2, 9, 9]].concat());
        let refused = SmallAnswer { number: 3, refusal: "x".into(), have: Vec::new(), status: 5 };
        assert_eq!(refused.encode_to_vec(), [0x08, 3, 0x12, 1, b'x', 0x20, 5]);
    }

    #[test]
    fn what_is_too_long_or_strange_is_refused_before_its_bytes_come() {
        let check = |header: SmallWrite| SmallFrame::parse(&header.front()).is_err();
        assert!(!check(SmallWrite { data_len: SMALL_WRITE_LEN_MAX, ..header() }));
        assert!(check(SmallWrite { data_len: SMALL_WRITE_LEN_MAX + 1, ..header() }));
        assert!(check(SmallWrite { chunk_len: 0, ..header() }));
        assert!(check(SmallWrite { checksum_kind: 3, ..header() }));
        assert!(check(SmallWrite { targets: vec![String::new(); 512], ..header() }));
        assert!(check(SmallWrite { pool: "x".repeat(HEADER_LEN_MAX), ..header() }));
        assert!(SmallFrame::parse(&[0, 28, 80]).is_err(), "another operation");
    }

    #[test]
    fn half_and_one_more_is_a_majority() {
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
    }

    proptest! {
        #[test]
        fn a_header_is_read_only_when_it_is_whole(data_len in 0u32..5000, chunk_len in 1u32..2000, cut in 0usize..60) {
            let header = SmallWrite { data_len, chunk_len, ..header() };
            let front = header.front();
            let Parsed::Frame(frame) = SmallFrame::parse(&front).unwrap() else { panic!("not understood") };
            let sums_len = frame.spec.sums_len(data_len.into());
            prop_assert_eq!(frame.len() as u64, front.len() as u64 + sums_len + u64::from(data_len));
            prop_assert_eq!(SmallFrame::parse(&front[..cut.min(front.len() - 1)]), Ok(Parsed::Partial));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = SmallFrame::parse(&[&[0, 28, 200][..], &bytes].concat());
        }
    }
}
