//! A layout as it is kept with its file: small, because most of it can be guessed from what stands before.
//!
//! ```text
//!  record   version = 1 ─ u8 ┬ body_len ─ varint ┬ body, deflated
//!  body     table_count, tables
//!  table    name, entries, column_count, columns
//!  column   name ┬ piece_count ┬ ways ─ u8 ┬ firsts ┬ places ┬ lens
//!           │                  │           └ none where they are those of the column before; else each as how its
//!           │                  │             distance from the one before differs from the distance before that
//!           │                  └ 1: own firsts; 2, 4: how places are expected ([`places::Expect`])
//!           └ how many bytes of the name before it begins with, len of the rest, rest
//! ```
//!
//! All numbers are varints; differences have their sign in the lowest bit. A len is its difference to the one before.
//! A record that cannot be read is as none: the file is asked again.

mod error;
mod places;
mod varint;

pub use error::RecordError;

use crate::error::LayoutError;
use crate::limits::{Budget, Limits};
use crate::room::{Boundless, Room};
use crate::tables::{Column, Layout, Piece, Table};
use crate::what::What;
use error::Result;
use places::Expect;
use varint::Reader;

const VERSION: u8 = 1;
/// Of the body. Four million pieces of seven bytes and the longest names; those in use take less than two.
const BODY_LEN_MAX: usize = 64 << 20;
/// Of deflate: levels above take much longer and save a few in a hundred.
const LEVEL: u8 = 6;
const OWN_FIRSTS: u8 = 1;

/// The record of a layout, which [`decode`] takes. Too large is what is above the usual limits, and some of what is
/// within them: millions of pieces without any order.
pub fn encode(layout: &Layout) -> std::result::Result<Vec<u8>, LayoutError> {
    let (mut body, mut budget) = (Vec::new(), Budget::new(Limits::default()));
    varint::put(&mut body, layout.tables.len() as u64);
    let mut name = "";
    for table in &layout.tables {
        budget.name(&table.name)?;
        put_name(&mut body, name, &table.name);
        name = &table.name;
        varint::put(&mut body, table.entries);
        varint::put(&mut body, table.columns.len() as u64);
        let mut before: &[Piece] = &[];
        for column in &table.columns {
            budget.name(&column.name)?;
            budget.pieces(column.pieces.len() as u64)?;
            put_name(&mut body, name, &column.name);
            name = &column.name;
            put_pieces(&mut body, &column.pieces, before);
            before = &column.pieces;
        }
        if body.len() > BODY_LEN_MAX {
            let (asked, max) = (body.len() as u64, BODY_LEN_MAX as u64);
            return Err(LayoutError::TooLarge { what: What::Record, asked, max });
        }
    }
    let mut record = vec![VERSION];
    varint::put(&mut record, body.len() as u64);
    record.append(&mut miniz_oxide::deflate::compress_to_vec(&body, LEVEL));
    Ok(record)
}

fn put_name(out: &mut Vec<u8>, before: &str, name: &str) {
    let same = before.chars().zip(name.chars()).take_while(|(one, other)| one == other);
    let same_len: usize = same.map(|(char, _)| char.len_utf8()).sum();
    let rest = name.get(same_len..).unwrap_or_default();
    varint::put(out, same_len as u64);
    varint::put(out, rest.len() as u64);
    out.extend_from_slice(rest.as_bytes());
}

fn put_pieces(out: &mut Vec<u8>, pieces: &[Piece], before: &[Piece]) {
    varint::put(out, pieces.len() as u64);
    if pieces.is_empty() {
        return;
    }
    let has_firsts_of_before = pieces.iter().map(|piece| piece.first).eq(before.iter().map(|piece| piece.first));
    let (expect, mut places) = Expect::cheapest(pieces, before);
    out.push(if has_firsts_of_before { 0 } else { OWN_FIRSTS } | (expect as u8) << 1);
    if !has_firsts_of_before {
        let (mut first, mut distance) = (0, 0);
        for piece in pieces {
            let next: u64 = piece.first.wrapping_sub(first);
            varint::put_difference(out, distance, next);
            (first, distance) = (piece.first, next);
        }
    }
    out.append(&mut places);
    let mut len = 0;
    for piece in pieces {
        varint::put_difference(out, len, piece.len.into());
        len = piece.len.into();
    }
}

/// The layout of a record. Whatever that says, the pieces of a column are in order, and none ends behind all numbers;
/// whether they lie in the file only its length tells.
pub fn decode(record: &[u8]) -> Result<Layout> {
    decode_in_room(record, Box::new(Boundless))
}

/// As [`decode`], and what is made of the record is taken from `room` before it is made: others may have written it.
pub fn decode_in_room(record: &[u8], room: Box<dyn Room>) -> Result<Layout> {
    let mut budget = Budget::in_room(Limits::default(), room);
    let body = inflated_within(record, &mut budget)?;
    decode_with(&body, budget)
}

pub(crate) fn inflated(record: &[u8]) -> Result<Vec<u8>> {
    inflated_within(record, &mut Budget::new(Limits::default()))
}

fn inflated_within(record: &[u8], budget: &mut Budget) -> Result<Vec<u8>> {
    let mut head = Reader::new(record);
    if head.byte()? != VERSION {
        return Err(RecordError("its version is not known here"));
    }
    let body_len = usize::try_from(head.number()?).unwrap_or(usize::MAX);
    if body_len > BODY_LEN_MAX {
        return Err(RecordError("it is too long"));
    }
    budget.object_room(body_len as u64).map_err(|_| TOO_MUCH)?;
    let body = miniz_oxide::inflate::decompress_to_vec_with_limit(head.left(), body_len);
    body.ok().filter(|body| body.len() == body_len).ok_or(RecordError("it cannot be inflated"))
}

pub(crate) fn decode_body(body: &[u8]) -> Result<Layout> {
    decode_with(body, Budget::new(Limits::default()))
}

fn decode_with(body: &[u8], budget: Budget) -> Result<Layout> {
    let mut decoder = Decoder { reader: Reader::new(body), name: String::new(), budget };
    let layout = decoder.layout()?;
    if decoder.reader.left().is_empty() { Ok(layout) } else { Err(RecordError("something follows it")) }
}

struct Decoder<'a> {
    reader: Reader<'a>,
    /// The last one.
    name: String,
    budget: Budget,
}

impl Decoder<'_> {
    fn layout(&mut self) -> Result<Layout> {
        let table_count = self.reader.number()?;
        let mut tables = Vec::new();
        for _ in 0..table_count {
            let (name, entries) = (self.name()?, self.reader.number()?);
            let mut columns: Vec<Column> = Vec::new();
            for _ in 0..self.reader.number()? {
                let name = self.name()?;
                let before = columns.last().map(|column| &*column.pieces).unwrap_or_default();
                let pieces = self.pieces(before)?;
                columns.push(Column { name, pieces });
            }
            tables.push(Table { name, entries, columns });
        }
        Ok(Layout { tables })
    }

    fn name(&mut self) -> Result<String> {
        let same_len = usize::try_from(self.reader.number()?).unwrap_or(usize::MAX);
        let same = self.name.get(..same_len).ok_or(RecordError("a name begins with more than there is"))?;
        let rest_len = self.reader.number()?;
        let rest = std::str::from_utf8(self.reader.take(rest_len)?);
        let name = [same, rest.map_err(|_| RecordError("a name is no text"))?].concat();
        self.budget.name(&name).map_err(|_| TOO_MUCH)?;
        self.name.clone_from(&name);
        Ok(name)
    }

    fn pieces(&mut self, before: &[Piece]) -> Result<Vec<Piece>> {
        let count = self.reader.number()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // Each has a place and a len.
        if count > self.reader.left().len() as u64 / 2 {
            return Err(RecordError("it has fewer pieces than it says"));
        }
        self.budget.pieces(count).map_err(|_| TOO_MUCH)?;
        let ways = self.reader.byte()?;
        let expect = Expect::ALL.get(usize::from(ways >> 1)).ok_or(RecordError("its places lie in no known way"))?;
        let mut firsts = Vec::with_capacity(count as usize);
        if ways & OWN_FIRSTS == 0 {
            firsts.extend(before.iter().map(|piece| piece.first));
        } else {
            let (mut first, mut distance) = (0_u64, 0);
            for _ in 0..count {
                distance = self.reader.behind(distance)?;
                first = first.wrapping_add(distance);
                firsts.push(first);
            }
        }
        if firsts.len() as u64 != count {
            return Err(RecordError("a column has not the pieces of the one before"));
        }
        // The place of one needs the lens of those before, which stand behind all places.
        let mut places = Reader::new(self.reader.left());
        for _ in 0..count {
            self.reader.number()?;
        }
        let (mut pieces, mut len) = (Vec::with_capacity(count as usize), 0);
        for first in firsts {
            let offset = places.behind(expect.place(&pieces, before))?;
            len = self.reader.behind(len)?;
            let len = u32::try_from(len).map_err(|_| RecordError("a piece is too long"))?;
            let is_in_order = pieces.last().is_none_or(|last: &Piece| last.first <= first);
            if !is_in_order || offset.checked_add(len.into()).is_none() {
                return Err(RecordError("its pieces are out of order, or end nowhere"));
            }
            pieces.push(Piece { first, offset, len });
        }
        Ok(pieces)
    }
}

const TOO_MUCH: RecordError = RecordError("it has more than any file may have");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece() -> impl Strategy<Value = Piece> {
        let offset = 0..=u64::MAX - u64::from(u32::MAX);
        (any::<u64>(), offset, any::<u32>()).prop_map(|(first, offset, len)| Piece { first, offset, len })
    }

    fn column() -> impl Strategy<Value = Column> {
        (".{0,6}", prop::collection::vec(piece(), 0..6)).prop_map(|(name, mut pieces)| {
            pieces.sort_by_key(|piece| piece.first);
            Column { name, pieces }
        })
    }

    fn table() -> impl Strategy<Value = Table> {
        let columns = prop::collection::vec(column(), 0..5);
        (".{0,6}", any::<u64>(), columns).prop_map(|(name, entries, columns)| Table { name, entries, columns })
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again(tables in prop::collection::vec(table(), 0..4)) {
            let layout = Layout { tables };
            prop_assert_eq!(decode(&encode(&layout).unwrap()), Ok(layout));
        }

        #[test]
        fn no_bytes_are_more_than_an_error(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let deflated = miniz_oxide::deflate::compress_to_vec(&bytes, 1);
            let record = [&[VERSION, bytes.len() as u8][..], &deflated].concat();
            if let Ok(layout) = decode(&record) {
                prop_assert_eq!(decode(&encode(&layout).unwrap()), Ok(layout));
            }
        }
    }

    /// Rows that were written together: `columns` pieces of some 700 bytes beside each other, `rows` times.
    fn written_together(columns: u64, rows: u64) -> Layout {
        let mut table = Table { name: "T".into(), entries: rows * 100, columns: Vec::new() };
        let len = |column: u64, row: u64| 700 + (column * 31 + row * row * 17) % 50;
        let all: Vec<u64> = (0..rows).flat_map(|row| (0..columns).map(move |column| len(column, row))).collect();
        let mut offsets = vec![1000];
        offsets.extend(all.iter().scan(1000, |at, len| {
            *at += len;
            Some(*at)
        }));
        for column in 0..columns {
            let piece = |row: u64| {
                let at = (row * columns + column) as usize;
                Piece { first: row * 100, offset: offsets[at], len: all[at] as u32 }
            };
            table.columns.push(Column { name: format!("column{column}"), pieces: (0..rows).map(piece).collect() });
        }
        Layout { tables: vec![table] }
    }

    #[test]
    fn a_piece_takes_few_bytes() {
        let (layout, piece_count) = (written_together(50, 200), 50 * 200);
        let record = encode(&layout).unwrap();
        assert!(record.len() < 2 * piece_count, "{} bytes for {piece_count} pieces", record.len());
        assert_eq!(decode(&record), Ok(layout));
    }

    /// A record that is kept today is read tomorrow: only another version may change this.
    #[test]
    fn golden_bytes() {
        let digits: String =
            encode(&written_together(2, 3)).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, GOLDEN);
        let bytes: Vec<u8> =
            (0..GOLDEN.len()).step_by(2).map(|at| u8::from_str_radix(&GOLDEN[at..at + 2], 16).unwrap()).collect();
        assert_eq!(decode(&bytes), Ok(written_together(2, 3)));
    }

    const GOLDEN: &str = "\
        012b012b00d4ff01000154ac02020007636f6c756d6e30030500c80100d00fb60b44f80a22020601310302000000b60b2202";

    fn of_pieces(pieces: &[Piece]) -> Layout {
        let column = Column { name: "x".into(), pieces: pieces.into() };
        Layout { tables: vec![Table { columns: vec![column], ..Table::default() }] }
    }

    /// A reader looks for entries by halves, and adds lens to offsets.
    #[test]
    fn pieces_that_lie_are_refused() {
        let one = Piece { first: 5, offset: 10, len: 10 };
        let refused = |pieces: &[Piece]| decode(&encode(&of_pieces(pieces)).unwrap()).is_err();
        assert!(!refused(&[one, one]));
        assert!(refused(&[one, Piece { first: 4, ..one }]));
        assert!(refused(&[Piece { offset: u64::MAX, ..one }]));
    }

    /// Else it is kept, refused, and made again, for ever.
    #[test]
    fn what_cannot_be_read_again_is_not_kept() {
        let many = Column { name: String::new(), pieces: vec![Piece::default(); (4 << 20) + 1] };
        let layout = Layout { tables: vec![Table { columns: vec![many], ..Table::default() }] };
        assert!(matches!(encode(&layout), Err(LayoutError::TooLarge { what: What::Pieces, .. })));
    }

    #[test]
    fn a_record_is_whole_or_none() {
        let record = encode(&written_together(5, 5)).unwrap();
        for len in 0..record.len() {
            assert!(decode(&record[..len]).is_err(), "{len} bytes");
        }
        let mut other = record.clone();
        other[0] = 2;
        assert_eq!(decode(&other), Err(RecordError("its version is not known here")));
        // A body of zeros that says it is as long as the number of its bytes can.
        let bomb = [&[VERSION, 0xff, 0xff, 0xff, 0xff, 0x7f][..], &[0; 50]].concat();
        assert_eq!(decode(&bomb), Err(RecordError("it is too long")));
    }
}
