//! Where the columns of a file lie, read beside the data (op 202, ours): so that a reader far away moves no header.
//!
//! ```text
//! reader ──[its blocks, which columns]──▶ node      which asks the file (crate `layout`), once, and keeps the answer
//!        ◀─[answer][LayoutAnswer]─
//! ```
//!
//! The request names the blocks of the file that the reader knows, the last one among them. A node that needs bytes of
//! another one, or of one that it cannot read, says which (`NotHere`). The answer has the names of all tables and
//! columns, so that numbers mean the same to everybody, and the pieces of those columns alone that were wanted.
//!
//! With a window, an answer that was found is followed by bytes of the wanted columns, in the form of an answer to a
//! request for ranges ([`crate::ranges`]): both ends find the same ranges in the record, so no list of them has to
//! travel.
//!
//! A long window may come in parts, as one connection brings little at first. The same request goes over each of
//! several connections, and names the part that is to come there; the record comes with the first part alone.
//!
//! The connection can carry another operation behind the answer, unless the operation was refused.

use crate::delimited;
use crate::error::WireError;
use crate::op::{Op, OpHeader};
pub use crate::proto::{LayoutAnswer, LayoutBlock, LayoutOutcome, LayoutWish, RangesToken, ReadLayout};
use crate::ranges::{Asked, RANGE_COUNT_MAX, RANGE_LEN_MAX, RangesBlock, ReadRanges, put_ranges};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use types::ChecksumKind;
use types::limits::{BLOCK_LEN_MAX, OP_MESSAGE_LEN_MAX};

/// Most blocks of a request. A footer and what it points to lie in one or two; a guess, far above.
pub const BLOCK_COUNT_MAX: usize = 1 << 10;
/// Most columns of a request, and most offsets. Who wants more wants all.
pub const WISH_COUNT_MAX: usize = 1 << 12;
/// Longest record of an answer. The table of the measurements, 364,800 pieces, takes 225 KB.
pub const RECORD_LEN_MAX: usize = 16 << 20;
/// Longest text of an answer.
pub const TEXT_LEN_MAX: usize = 4 << 10;
/// Longest answer.
pub const ANSWER_LEN_MAX: usize = RECORD_LEN_MAX + TEXT_LEN_MAX + 64;

/// Most bytes of a window, and most pieces.
pub const WINDOW_LEN_MAX: u64 = 64 << 20;
pub const WINDOW_COUNT_MAX: usize = RANGE_COUNT_MAX - BLOCK_COUNT_MAX;

/// Most parts of a window: as many as a reader far away has connections to one node.
pub const PART_COUNT_MAX: u32 = 256;

/// The number of its record in the message of an answer.
const RECORD_TAG: u32 = 2;

const REQUEST: &str = "request for a layout";
const ANSWER: &str = "layout";

/// Which columns are wanted with their pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    All,
    /// Table and column, by their numbers.
    Columns(Vec<(u32, u32)>),
    /// Those that have a piece at one of these bytes of the file.
    At(Vec<u64>),
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The record of the layout, as the crate `layout` reads it.
    Found(Bytes),
    /// It is of no format that is known. True until the file changes.
    Unknown(String),
    /// Its layout takes more than a node gives for one.
    TooLarge(String),
    /// The file contradicts itself.
    Damaged(String),
    /// The node asks as many files as it may; another node, or later.
    Busy(String),
    /// These bytes of the file are wanted, and this node cannot read them: either their block was not named, or it is
    /// on other nodes.
    NotHere { offset: u64, len: u64 },
}

fn too_many(what: &'static str, len: usize, max: usize) -> WireError {
    WireError::TooLong { what, len: len as u64, max: max as u64 }
}

fn wrong(what: &'static str, reason: &str) -> WireError {
    WireError::Message { what, reason: reason.to_owned() }
}

impl LayoutBlock {
    /// The first byte behind it in the file. Of one that was checked.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

impl ReadLayout {
    /// The bytes of the operation.
    pub fn encode_op(&self) -> Vec<u8> {
        let mut bytes = OpHeader { op: Op::ReadLayout }.encode().to_vec();
        delimited::put(self, &mut bytes);
        bytes
    }

    pub fn with_wish(mut self, wish: &Wish) -> Self {
        let (kind, columns, offsets) = match wish {
            Wish::All => (LayoutWish::All, Vec::new(), Vec::new()),
            Wish::Columns(columns) => {
                let numbers = columns.iter().flat_map(|(table, column)| [*table, *column]);
                (LayoutWish::Columns, numbers.collect(), Vec::new())
            }
            Wish::At(offsets) => (LayoutWish::AtOffsets, Vec::new(), offsets.clone()),
        };
        (self.wish, self.columns, self.offsets) = (kind.into(), columns, offsets);
        self
    }

    /// What is wanted, once nothing in the request is out of its bounds: blocks lie in order and within the file, the
    /// last one ends with it, and each has a token.
    pub fn checked(&self) -> Result<Wish, WireError> {
        if self.blocks.len() > BLOCK_COUNT_MAX {
            return Err(too_many("list of blocks", self.blocks.len(), BLOCK_COUNT_MAX));
        }
        let mut end = 0;
        for block in &self.blocks {
            if block.len == 0 || block.len > BLOCK_LEN_MAX || block.offset < end {
                return Err(wrong(REQUEST, "its blocks are out of order, empty or too long"));
            }
            end = block.offset.checked_add(block.len).ok_or_else(|| wrong(REQUEST, "a block ends nowhere"))?;
            if block.token as usize >= self.tokens.len() {
                return Err(wrong(REQUEST, "a block names a token that is not among them"));
            }
        }
        if end == 0 || end != self.file_len {
            return Err(wrong(REQUEST, "its last block does not end with the file"));
        }
        if self.window_len > WINDOW_LEN_MAX {
            return Err(WireError::TooLong { what: "window", len: self.window_len, max: WINDOW_LEN_MAX });
        }
        if self.part_count > PART_COUNT_MAX {
            return Err(too_many("list of parts", self.part_count as usize, PART_COUNT_MAX as usize));
        }
        if self.part >= self.part_count.max(1) {
            return Err(wrong(REQUEST, "it wants a part that is not among them"));
        }
        self.wished()
    }

    /// What of the ranges of a window comes by this request: those that touch are one, and of the bytes of all each
    /// part has as many, in their order. A window of thousands is cut for each of hundreds of parts.
    pub fn part_of(&self, ranges: impl Iterator<Item = (usize, Asked)> + Clone) -> Vec<(usize, Asked)> {
        if self.part_count <= 1 {
            return ranges.collect();
        }
        let (part, count) = (u64::from(self.part), u64::from(self.part_count));
        let all_len: u64 = ranges.clone().map(|(_, asked)| u64::from(asked.len)).sum();
        // By 128 bits: a window is short, but it is not for this to know.
        let bound = |part: u64| (u128::from(all_len) * u128::from(part) / u128::from(count)) as u64;
        let (first, end) = (bound(part), bound(part + 1));
        let joins = |len: u32, more: u32| len.checked_add(more).is_some_and(|len| len <= RANGE_LEN_MAX);
        let (mut at, mut cut): (u64, Vec<(usize, Asked)>) = (0, Vec::new());
        for (place, asked) in ranges {
            let (begin, len) = (at, u64::from(asked.len));
            at += len;
            let (from, to) = (begin.max(first), at.min(end));
            if begin >= end {
                break;
            }
            if from >= to {
                continue;
            }
            let own = Asked { from: asked.from + (from - begin), len: (to - from) as u32 };
            match cut.last_mut() {
                Some((before, last)) if *before == place && last.end() == own.from && joins(last.len, own.len) => {
                    last.len += own.len;
                }
                _ => cut.push((place, own)),
            }
        }
        cut
    }

    /// Bytes of the file, as they lie in it, as ranges of its blocks, by their places: cut where blocks end, and
    /// without what is in blocks that are not named, or behind as many as a request may have.
    pub fn in_blocks<'a, P>(&'a self, pieces: P) -> impl Iterator<Item = (usize, Asked)> + Clone + use<'a, P>
    where
        P: IntoIterator<Item = (u64, u32), IntoIter: Clone>,
    {
        let mut place = 0;
        let ranges = pieces.into_iter().flat_map(move |(offset, len)| {
            while self.blocks.get(place).is_some_and(|block| block.end() <= offset) {
                place += 1;
            }
            let end = offset.saturating_add(len.into());
            let touched = self.blocks.iter().enumerate().skip(place).take_while(move |(_, block)| block.offset < end);
            touched.map(move |(place, block)| {
                let (from, end) = (block.offset.max(offset), block.end().min(end));
                (place, Asked { from: from - block.offset, len: (end - from) as u32 })
            })
        });
        ranges.take(RANGE_COUNT_MAX)
    }

    /// The request for these bytes alone, by the same tokens: ranges of blocks, by their places, in their order.
    pub fn into_ranges(self, ranges: &[(usize, Asked)]) -> ReadRanges {
        let (mut blocks, mut listed) = (Vec::new(), Vec::new());
        for of_block in ranges.chunk_by(|(one, _), (next, _)| one == next) {
            let Some(block) = of_block.first().and_then(|(place, _)| self.blocks.get(*place)) else { continue };
            let asked: Vec<Asked> = of_block.iter().map(|(_, asked)| *asked).collect();
            put_ranges(&asked, &mut listed);
            let LayoutBlock { block, generation, token, .. } = *block;
            blocks.push(RangesBlock { block, generation, token, range_count: asked.len() as u32 });
        }
        let Self { pool, client, tokens, .. } = self;
        ReadRanges { pool, client, tokens, blocks, ranges: listed.into() }
    }

    fn wished(&self) -> Result<Wish, WireError> {
        let is_within = |len: usize| match len {
            len if len <= WISH_COUNT_MAX => Ok(()),
            len => Err(too_many("list of columns", len, WISH_COUNT_MAX)),
        };
        match LayoutWish::try_from(self.wish) {
            Ok(LayoutWish::All) => Ok(Wish::All),
            Ok(LayoutWish::Columns) => {
                let (pairs, rest) = self.columns.as_chunks::<2>();
                is_within(pairs.len())?;
                if !rest.is_empty() {
                    return Err(wrong(REQUEST, "a column has no number"));
                }
                Ok(Wish::Columns(pairs.iter().map(|[table, column]| (*table, *column)).collect()))
            }
            Ok(LayoutWish::AtOffsets) => {
                is_within(self.offsets.len())?;
                Ok(Wish::At(self.offsets.clone()))
            }
            Err(_) => Err(wrong(REQUEST, "what it wants is not known here")),
        }
    }
}

impl LayoutAnswer {
    /// What is sent before the record, which is not copied for it: the record comes last, also in the message.
    pub fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        if self.record.is_empty() {
            delimited::put(self, &mut head);
            return head;
        }
        let rest = Self { record: Bytes::new(), ..self.clone() };
        encode_varint(self.encoded_len() as u64, &mut head);
        head.extend_from_slice(&rest.encode_to_vec());
        encode_key(RECORD_TAG, WireType::LengthDelimited, &mut head);
        encode_varint(self.record.len() as u64, &mut head);
        head
    }
}

impl Answer {
    /// As it is sent. The record is not above its limit; a text is cut.
    pub fn into_message(self) -> LayoutAnswer {
        let said = |outcome: LayoutOutcome, mut text: String| {
            text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
            LayoutAnswer { outcome: outcome.into(), text, ..LayoutAnswer::default() }
        };
        match self {
            Self::Found(record) => {
                assert!(record.len() <= RECORD_LEN_MAX, "too long records are answered as too large");
                LayoutAnswer { sum: ChecksumKind::Crc32c.of(&record), record, ..LayoutAnswer::default() }
            }
            Self::Unknown(text) => said(LayoutOutcome::Unknown, text),
            Self::TooLarge(text) => said(LayoutOutcome::TooLarge, text),
            Self::Damaged(text) => said(LayoutOutcome::Damaged, text),
            Self::Busy(text) => said(LayoutOutcome::Busy, text),
            Self::NotHere { offset, len } => {
                LayoutAnswer { offset, len, ..said(LayoutOutcome::NotHere, String::new()) }
            }
        }
    }

    /// As it came. The record is the one that was sent.
    pub fn of(message: LayoutAnswer) -> Result<Self, WireError> {
        let LayoutAnswer { outcome, record, sum, text, offset, len } = message;
        let outcome = LayoutOutcome::try_from(outcome).map_err(|_| wrong(ANSWER, "what came of it is not known"))?;
        Ok(match outcome {
            LayoutOutcome::Found if ChecksumKind::Crc32c.of(&record) == sum => Self::Found(record),
            LayoutOutcome::Found => return Err(wrong(ANSWER, "its checksum does not agree")),
            LayoutOutcome::Unknown => Self::Unknown(text),
            LayoutOutcome::TooLarge => Self::TooLarge(text),
            LayoutOutcome::Damaged => Self::Damaged(text),
            LayoutOutcome::Busy => Self::Busy(text),
            LayoutOutcome::NotHere => Self::NotHere { offset, len },
        })
    }
}

// A request is an operation's message, and its longest lists fit: of a block all fields, of a token some 300 bytes.
const _: () = assert!(BLOCK_COUNT_MAX * (56 + 300) + WISH_COUNT_MAX * 10 < OP_MESSAGE_LEN_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(lens: &[u64]) -> ReadLayout {
        let mut request = ReadLayout { pool: "BP".into(), client: "c".into(), ..ReadLayout::default() };
        request.tokens.push(RangesToken { identifier: vec![8, 0].into(), password: vec![7].into() });
        for (block, len) in (1..).zip(lens) {
            let offset = request.file_len;
            request.blocks.push(LayoutBlock { offset, block, generation: 1001, len: *len, token: 0 });
            request.file_len += len;
        }
        request
    }

    /// The bytes are fixed: nodes and readers of two versions talk to each other.
    #[test]
    fn golden_request_and_answers() {
        let golden: &[u8] = &[
            0, 28, 202, 45, 0x0a, 2, b'B', b'P', 0x12, 1, b'c', 0x1a, 7, 0x0a, 2, 8, 0, 0x12, 1, 7, 0x22, 7, 0x10, 1,
            0x18, 0xe9, 7, 0x20, 100, 0x22, 9, 8, 100, 0x10, 2, 0x18, 0xe9, 7, 0x20, 50, 0x28, 0x96, 1, 0x30, 1, 0x3a,
            2, 0, 5,
        ];
        let request = request(&[100, 50]).with_wish(&Wish::Columns(vec![(0, 5)]));
        let bytes = request.encode_op();
        assert_eq!(bytes, golden);
        assert_eq!(
            request.clone().with_wish(&Wish::At(vec![3, 300])).encode_op()[43..],
            [0x30, 2, 0x42, 3, 3, 0xac, 2]
        );
        let with_window = ReadLayout { window_len: 300, window_first: 7, ..request.clone() };
        assert!(with_window.encode_op().ends_with(&[0, 5, 0x48, 0xac, 2, 0x50, 7]));
        let part = ReadLayout { part_count: 128, part: 5, ..request.clone() };
        assert!(part.encode_op().ends_with(&[0, 5, 0x58, 0x80, 1, 0x60, 5]));
        let sent = |answer: Answer| prost::Message::encode_to_vec(&answer.into_message());
        let found = sent(Answer::Found(Bytes::from_static(b"123456789")));
        let sum = 0xe306_9283_u32.to_le_bytes();
        assert_eq!(found, [&[0x12, 9][..], b"123456789", &[0x1d], &sum].concat());
        assert_eq!(sent(Answer::Unknown("no".into())), [8, 1, 0x22, 2, b'n', b'o']);
        assert_eq!(sent(Answer::TooLarge("no".into()))[..2], [8, 2]);
        assert_eq!(sent(Answer::Damaged("no".into()))[..2], [8, 3]);
        assert_eq!(sent(Answer::Busy("no".into()))[..2], [8, 4]);
        assert_eq!(sent(Answer::NotHere { offset: 9, len: 4 }), [8, 5, 0x28, 9, 0x30, 4]);
    }

    #[test]
    fn what_is_out_of_its_bounds_is_refused() {
        let refused = |change: &dyn Fn(&mut ReadLayout)| {
            let mut request = request(&[100, 50]);
            assert_eq!(request.checked(), Ok(Wish::All));
            change(&mut request);
            request.checked().unwrap_err().to_string()
        };
        assert!(refused(&|request| request.blocks[1].offset = 99).contains("out of order"));
        assert!(refused(&|request| request.blocks[0].len = 0).contains("empty"));
        assert!(refused(&|request| request.blocks[0].len = BLOCK_LEN_MAX + 1).contains("too long"));
        assert!(refused(&|request| request.blocks[1].offset = u64::MAX).contains("nowhere"));
        assert!(refused(&|request| request.blocks[1].token = 1).contains("token"));
        assert!(refused(&|request| request.file_len += 1).contains("end with the file"));
        assert!(refused(&|request| request.blocks.clear()).contains("end with the file"));
        assert!(refused(&|request| request.wish = 3).contains("not known"));
        assert!(refused(&|request| request.part_count = PART_COUNT_MAX + 1).contains("list of parts"));
        assert!(refused(&|request| (request.part_count, request.part) = (4, 4)).contains("a part"));
        assert!(refused(&|request| request.part = 1).contains("a part"));
        let many = |kind: LayoutWish, count| {
            refused(&|request| {
                (request.wish, request.columns, request.offsets) = (kind.into(), vec![0; count], vec![0; count]);
            })
        };
        assert!(many(LayoutWish::Columns, 2 * WISH_COUNT_MAX + 2).contains("list of columns"));
        assert!(many(LayoutWish::AtOffsets, WISH_COUNT_MAX + 1).contains("list of columns"));
        assert!(many(LayoutWish::Columns, 3).contains("no number"));
        assert!(
            refused(&|request| request.blocks = vec![LayoutBlock::default(); BLOCK_COUNT_MAX + 1])
                .contains("of blocks")
        );
    }

    #[test]
    fn a_record_is_sent_behind_its_head() {
        for answer in [Answer::Found(Bytes::from(vec![7; 300])), Answer::Unknown("no".into())] {
            let message = answer.clone().into_message();
            let sent = [message.head(), message.record.to_vec()].concat();
            let (heard, len) = delimited::split(&sent, ANSWER, ANSWER_LEN_MAX).unwrap().unwrap();
            assert_eq!(len, sent.len());
            assert_eq!(Answer::of(delimited::decode(heard, ANSWER).unwrap()), Ok(answer));
        }
        let message = Answer::Found(Bytes::from_static(b"123456789")).into_message();
        assert_eq!(message.head(), [16, 0x1d, 0x83, 0x92, 0x06, 0xe3, 0x12, 9]);
    }

    #[test]
    fn a_window_is_cut_where_blocks_end() {
        let mut request = request(&[100, 50, 50, 50]);
        request.blocks.remove(2);
        let ranges: Vec<_> = request.in_blocks([(10, 5), (90, 20), (140, 80), (249, 1)]).collect();
        let asked = |from, len| Asked { from, len };
        let expected = [
            (0, asked(10, 5)),
            (0, asked(90, 10)),
            (1, asked(0, 10)),
            (1, asked(40, 10)),
            (2, asked(0, 20)),
            (2, asked(49, 1)),
        ];
        assert_eq!(ranges, expected);
        request.window_len = WINDOW_LEN_MAX + 1;
        assert!(request.checked().unwrap_err().to_string().contains("window"));
    }

    #[test]
    fn the_parts_of_a_window_are_all_of_it() {
        let asked = |from, len| Asked { from, len };
        let ranges = vec![(0, asked(0, 10)), (0, asked(10, 30)), (0, asked(50, 25)), (1, asked(0, 35))];
        let part =
            |part_count, part| ReadLayout { part_count, part, ..request(&[100, 50]) }.part_of(ranges.iter().copied());
        assert_eq!(part(0, 0), ranges);
        assert_eq!(part(2, 0), [(0, asked(0, 40)), (0, asked(50, 10))]);
        assert_eq!(part(2, 1), [(0, asked(60, 15)), (1, asked(0, 35))]);
        for count in 2..=PART_COUNT_MAX {
            let parts: Vec<_> = (0..count).map(|number| part(count, number)).collect();
            let lens = parts.iter().map(|part| part.iter().map(|(_, asked)| asked.len).sum::<u32>());
            assert!(lens.clone().all(|len| len.abs_diff(100 / count) <= 1) && lens.sum::<u32>() == 100);
        }
        assert_eq!(ReadLayout { part_count: 3, ..request(&[1]) }.part_of(std::iter::empty()), []);
    }

    /// Not each block has to be known to who asks.
    #[test]
    fn blocks_between_the_first_and_the_last_may_be_left_out() {
        let mut request = request(&[100, 100, 50]);
        request.blocks.remove(1);
        assert_eq!(request.checked(), Ok(Wish::All));
        request.blocks.remove(0);
        assert_eq!(request.checked(), Ok(Wish::All));
    }

    #[test]
    fn an_answer_is_believed_if_its_checksum_agrees() {
        let mut message = Answer::Found(Bytes::from_static(b"record")).into_message();
        message.sum ^= 1;
        assert!(Answer::of(message).unwrap_err().to_string().contains("checksum"));
        let long = Answer::Unknown("é".repeat(TEXT_LEN_MAX)).into_message();
        assert_eq!(long.text.len(), TEXT_LEN_MAX);
        assert!(Answer::of(LayoutAnswer { outcome: 6, ..LayoutAnswer::default() }).is_err());
    }

    proptest! {
        #[test]
        fn what_was_said_is_what_is_heard(
            lens in proptest::collection::vec(1..=BLOCK_LEN_MAX, 1..5),
            columns in proptest::collection::vec(any::<(u32, u32)>(), 0..9),
            offsets in proptest::collection::vec(any::<u64>(), 0..9),
            text in ".{0,40}", at in any::<(u64, u64)>(),
        ) {
            for wish in [Wish::All, Wish::Columns(columns), Wish::At(offsets)] {
                let bytes = request(&lens).with_wish(&wish).encode_op();
                let max = OP_MESSAGE_LEN_MAX as usize;
                let (message, _) = delimited::split(&bytes[OpHeader::LEN..], "op", max).unwrap().unwrap();
                prop_assert_eq!(delimited::decode::<ReadLayout>(message, "op").unwrap().checked(), Ok(wish));
            }
            let record = Bytes::from(text.clone());
            for answer in [
                Answer::Found(record), Answer::Unknown(text.clone()), Answer::TooLarge(text.clone()),
                Answer::Damaged(text.clone()), Answer::Busy(text), Answer::NotHere { offset: at.0, len: at.1 },
            ] {
                prop_assert_eq!(Answer::of(answer.clone().into_message()), Ok(answer));
            }
        }
    }
}
