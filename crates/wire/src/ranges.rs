//! Many ranges of many blocks in one request (op 201, ours), and one stream of parts that answers it.
//!
//! ```text
//! reader ──[blocks, ranges]──▶ node       one flight up: a range takes 3 to 5 bytes
//!        ◀─[answer][part][part]…[end]─    in the order of the node's disks, each part behind its head
//! ```
//!
//! Bytes come as they were asked for and no more: a part begins and ends where its range does, or where a piece of a
//! long one does, wherever the stored chunks lie. One checksum covers a part. The node makes it from the stored ones,
//! which cover chunks, and from what it reads of the chunks at both ends, so that bytes which rotted on the disk match
//! neither. The parts of one range come in their order; those of different ranges come in any.
//!
//! The answer ends with its end, and the connection can carry another operation. A request may be sent before the
//! answer to the one before has come: answers come in the order of requests.

use crate::ack::Status;
use crate::delimited;
use crate::error::WireError;
use crate::op::{Op, OpHeader};
pub use crate::proto::{RangesBlock, RangesToken, ReadRanges};
use std::fmt;
use types::ChecksumKind;
use types::limits::{BLOCK_LEN_MAX, OP_MESSAGE_LEN_MAX};

/// Most ranges of a request, of all its blocks.
pub const RANGE_COUNT_MAX: usize = 1 << 16;
/// Most blocks of a request.
pub const BLOCK_COUNT_MAX: usize = 1 << 12;
/// Longest range. Who wants more asks for several.
pub const RANGE_LEN_MAX: u32 = 1 << 30;
/// Longest data of one part: what is received before it is verified.
pub const PART_LEN_MAX: u32 = 1 << 20;
/// Longest text of a refusal.
pub const TEXT_LEN_MAX: u32 = 4 << 10;

const REQUEST: &str = "request for ranges";

/// Bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// First byte, from the block's beginning.
    pub from: u64,
    pub len: u32,
}

impl Asked {
    pub fn end(self) -> u64 {
        self.from + u64::from(self.len)
    }
}

/// The ranges of a request in the order in which they are numbered: those of its first block, then those of the next.
///
/// ```text
/// ┌─────────────────┬──────────────┐   varints of zigzags: from, less the end of the range before; len, less that
/// │ from − before   │ len − before │   before; both from 0 at each block
/// └─────────────────┴──────────────┘
/// ```
pub fn put_ranges(block: &[Asked], out: &mut Vec<u8>) {
    let (mut end, mut len) = (0, 0);
    for range in block {
        put_delta(range.from, end, out);
        put_delta(range.len.into(), len, out);
        (end, len) = (range.end(), range.len.into());
    }
}

/// Takes `count` ranges of one block off the front of `bytes`. Each is within the longest block.
fn take_ranges(bytes: &mut &[u8], count: usize, ranges: &mut Vec<Asked>) -> Result<(), WireError> {
    let (mut end, mut len) = (0, 0);
    for _ in 0..count {
        let from = take_delta(bytes, end)?;
        let long = take_delta(bytes, len)?;
        if long > u64::from(RANGE_LEN_MAX) {
            return Err(WireError::TooLong { what: "range", len: long, max: RANGE_LEN_MAX.into() });
        }
        if from > BLOCK_LEN_MAX - long {
            return Err(WireError::TooLong {
                what: "block, of which a range is asked for,",
                len: from,
                max: BLOCK_LEN_MAX,
            });
        }
        ranges.push(Asked { from, len: long as u32 });
        (end, len) = (from + long, long);
    }
    Ok(())
}

fn put_delta(value: u64, before: u64, out: &mut Vec<u8>) {
    let delta = value.wrapping_sub(before) as i64;
    let mut rest = (delta << 1 ^ delta >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn take_delta(bytes: &mut &[u8], before: u64) -> Result<u64, WireError> {
    let wrong = |reason: &str| WireError::Message { what: REQUEST, reason: reason.to_owned() };
    let mut zigzag = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first().ok_or_else(|| wrong("fewer ranges than its blocks say"))?;
        *bytes = rest;
        zigzag |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            return before.checked_add_signed(delta).ok_or_else(|| wrong("a range before its block"));
        }
    }
    Err(wrong("a number of more than 64 bits"))
}

impl fmt::Debug for RangesToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RangesToken")
    }
}

impl ReadRanges {
    /// The bytes of the operation.
    pub fn encode_op(&self) -> Vec<u8> {
        let mut bytes = OpHeader { op: Op::ReadRanges }.encode().to_vec();
        delimited::put(self, &mut bytes);
        bytes
    }

    /// What is asked for of each block. Nothing in it is out of its bounds.
    pub fn asked(&self) -> Result<Vec<Vec<Asked>>, WireError> {
        let too_many = |what, len: usize, max: usize| WireError::TooLong { what, len: len as u64, max: max as u64 };
        if self.blocks.len() > BLOCK_COUNT_MAX {
            return Err(too_many("list of blocks", self.blocks.len(), BLOCK_COUNT_MAX));
        }
        let count = self.blocks.iter().map(|block| block.range_count as usize).sum::<usize>();
        if count > RANGE_COUNT_MAX {
            return Err(too_many("list of ranges", count, RANGE_COUNT_MAX));
        }
        if self.blocks.iter().any(|block| block.token as usize >= self.tokens.len()) {
            let reason = "a block names a token that is not among them".to_owned();
            return Err(WireError::Message { what: REQUEST, reason });
        }
        let mut rest = &self.ranges[..];
        let mut asked = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let mut ranges = Vec::with_capacity((block.range_count as usize).min(rest.len()));
            take_ranges(&mut rest, block.range_count as usize, &mut ranges)?;
            asked.push(ranges);
        }
        if rest.is_empty() {
            Ok(asked)
        } else {
            Err(WireError::Message { what: REQUEST, reason: format!("{} bytes behind its ranges", rest.len()) })
        }
    }
}

/// What goes before each part of an answer, big-endian.
///
/// ```text
/// 0      1            5           9           13
/// ┌──────┬────────────┬───────────┬───────────┬──────────┐  kind   0 to 2: bytes of that range, the next ones;
/// │ kind │ range u32  │ len u32   │ sum u32   │ len bytes│         `sum` is of this kind of checksum over them
/// │ u8   │            │           │           │          │         16: the range is refused, and what has not come
/// └──────┴────────────┴───────────┴───────────┴──────────┘         of its block's others; `sum` is HDFS's status, a
///                                                                  text follows.   17: the end; all else is 0
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartHead {
    Bytes { range: u32, len: u32, kind: ChecksumKind, sum: u32 },
    Refused { range: u32, text_len: u32, status: Status },
    End,
}

const REFUSED: u8 = 16;
const END: u8 = 17;

impl PartHead {
    pub const LEN: usize = 13;

    pub fn encode(self) -> [u8; Self::LEN] {
        let (kind, range, len, sum) = match self {
            Self::Bytes { range, len, kind, sum } => (kind as u8, range, len, sum),
            Self::Refused { range, text_len, status } => (REFUSED, range, text_len, status.0.into()),
            Self::End => (END, 0, 0, 0),
        };
        let mut bytes = [kind; Self::LEN];
        for (place, word) in bytes[1..].chunks_exact_mut(4).zip([range, len, sum]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub fn decode(bytes: [u8; Self::LEN]) -> Result<Self, WireError> {
        let [kind, words @ ..] = bytes;
        let word = |at: usize| u32::from_be_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        let (range, len, sum) = (word(0), word(4), word(8));
        let within = |what, max: u32| match len {
            len if len <= max => Ok(()),
            len => Err(WireError::TooLong { what, len: len.into(), max: max.into() }),
        };
        match kind {
            REFUSED => {
                within("text of a refused range", TEXT_LEN_MAX)?;
                let status = u8::try_from(sum).map(Status).map_err(|_| WireError::Message {
                    what: "refused range",
                    reason: format!("status {sum}, which is not known"),
                })?;
                Ok(Self::Refused { range, text_len: len, status })
            }
            END if (range, len, sum) == (0, 0, 0) => Ok(Self::End),
            _ => {
                within("part of a range", PART_LEN_MAX)?;
                let kind = ChecksumKind::from_number(kind.into()).ok_or_else(|| WireError::Message {
                    what: "part of a range",
                    reason: format!("kind {kind}, which is not known"),
                })?;
                Ok(Self::Bytes { range, len, kind, sum })
            }
        }
    }
}

// A request is an operation's message, and its longest list of ranges fits.
const _: () = assert!(RANGE_COUNT_MAX * 2 * 5 < OP_MESSAGE_LEN_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(blocks: &[&[Asked]]) -> ReadRanges {
        let mut request = ReadRanges { pool: "BP".into(), client: "c".into(), ..Default::default() };
        request.tokens.push(RangesToken { identifier: vec![8, 0].into(), password: vec![7].into() });
        let mut ranges = Vec::new();
        for (block, asked) in (1..).zip(blocks) {
            let range_count = asked.len() as u32;
            request.blocks.push(RangesBlock { block, generation: 1001, token: 0, range_count });
            put_ranges(asked, &mut ranges);
        }
        request.ranges = ranges.into();
        request
    }

    /// The bytes are fixed: nodes and readers of two versions talk to each other.
    #[test]
    fn golden_request_and_heads() {
        let asked = [Asked { from: 1000, len: 64 }, Asked { from: 1064, len: 64 }, Asked { from: 10, len: 65 }];
        let golden: &[u8] = &[
            0, 28, 201, 36, 0x0a, 2, b'B', b'P', 0x12, 1, b'c', 0x1a, 7, 0x0a, 2, 8, 0, 0x12, 1, 7, 0x22, 7, 8, 1,
            0x10, 0xe9, 7, 0x20, 3, 0x2a, 9, 0xd0, 0x0f, 0x80, 1, 0, 0, 0xbb, 0x11, 2,
        ];
        assert_eq!(request(&[&asked]).encode_op(), golden);
        let head = PartHead::Bytes { range: 3, len: 64, kind: ChecksumKind::Crc32c, sum: 0x0102_0304 };
        assert_eq!(head.encode(), [2, 0, 0, 0, 3, 0, 0, 0, 64, 1, 2, 3, 4]);
        let refused = PartHead::Refused { range: 1, text_len: 5, status: Status(12) };
        assert_eq!(refused.encode(), [16, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 12]);
        assert_eq!(PartHead::End.encode(), [17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// As the columns of a table lie: pieces of nearly one length, with nearly one distance.
    #[test]
    fn thousands_of_ranges_take_a_few_kilobytes() {
        let asked: Vec<_> = (0..5000_u64).map(|i| Asked { from: i * 220_000, len: 1400 + (i % 60) as u32 }).collect();
        let bytes = request(&[&asked]).encode_op();
        assert!(bytes.len() < 5000 * 9 / 2, "{} bytes", bytes.len());
    }

    #[test]
    fn what_is_out_of_its_bounds_is_refused() {
        let one = [Asked { from: 0, len: 1 }];
        let refused = |change: &dyn Fn(&mut ReadRanges)| {
            let mut request = request(&[&one]);
            change(&mut request);
            request.asked().unwrap_err().to_string()
        };
        assert!(refused(&|request| request.blocks[0].range_count = u32::MAX).contains("list of ranges"));
        assert!(refused(&|request| request.blocks[0].range_count = 2).contains("fewer ranges"));
        assert!(refused(&|request| request.blocks[0].range_count = 0).contains("2 bytes behind"));
        assert!(refused(&|request| request.blocks[0].token = 1).contains("token"));
        assert!(
            refused(&|request| request.blocks = vec![Default::default(); BLOCK_COUNT_MAX + 1]).contains("of blocks")
        );
        assert!(refused(&|request| request.ranges = vec![1, 2].into()).contains("before its block"));
        assert!(refused(&|request| request.ranges = vec![0x80; 20].into()).contains("64 bits"));
        let mut long = Vec::new();
        put_delta(0, 0, &mut long);
        put_delta(u64::from(RANGE_LEN_MAX) + 1, 0, &mut long);
        assert!(refused(&|request| request.ranges = long.clone().into()).contains("range"));
        let far = [Asked { from: BLOCK_LEN_MAX, len: 1 }];
        assert!(request(&[&far]).asked().is_err());
    }

    #[test]
    fn heads_are_bounded_before_their_bytes_come() {
        let head = |kind, len| PartHead::decode([kind, 0, 0, 0, 0, 0, len, 0, 1, 0, 0, 0, 0]);
        assert!(head(2, 0x0f).is_ok() && head(2, 0x10).is_err());
        assert!(head(REFUSED, 0).is_ok() && head(REFUSED, 1).is_err());
        assert!(head(3, 0).is_err() && head(END, 0).is_err());
    }

    proptest! {
        #[test]
        fn what_was_asked_is_what_is_read(
            blocks in proptest::collection::vec(proptest::collection::vec(
                (0..BLOCK_LEN_MAX - u64::from(RANGE_LEN_MAX), 0..=RANGE_LEN_MAX), 0..20), 0..6)
        ) {
            let blocks: Vec<Vec<_>> = blocks.iter().map(|ranges| {
                ranges.iter().map(|(from, len)| Asked { from: *from, len: *len }).collect()
            }).collect();
            let request = request(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let bytes = request.encode_op();
            let max = OP_MESSAGE_LEN_MAX as usize;
            let (message, len) = delimited::split(&bytes[OpHeader::LEN..], "op", max).unwrap().unwrap();
            prop_assert_eq!(OpHeader::LEN + len, bytes.len());
            let again: ReadRanges = delimited::decode(message, "op").unwrap();
            prop_assert_eq!(again.asked().unwrap(), blocks);
        }

        #[test]
        fn no_bytes_panic(
            ranges in proptest::collection::vec(any::<u8>(), 0..60), count in 0u32..40, head: [u8; PartHead::LEN],
        ) {
            let mut request = request(&[&[]]);
            request.blocks[0].range_count = count;
            request.ranges = ranges.into();
            if let Ok(asked) = request.asked() {
                let mut again = Vec::new();
                put_ranges(&asked[0], &mut again);
                prop_assert!(again.len() <= request.ranges.len());
            }
            if let Ok(head) = PartHead::decode(head) {
                prop_assert_eq!(PartHead::decode(head.encode()), Ok(head));
            }
        }
    }
}
