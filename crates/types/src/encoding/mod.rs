//! How rows, log entries and messages between metadata servers are written: records whose fields are numbered, so that
//! a field can be added without a new form.
//!
//! ```text
//! number    LEB128: seven bits a byte, the lowest first, bit 7 set in all but the last
//! text      length, bytes of UTF-8                list     count, items
//! option    0, or 1 and the value                 pair     one value, the other: no field is ever added to it
//!
//!           ┌──────────────┬─────────┬─────────┬─────┐
//! record    │ length of    │ field 0 │ field 1 │  …  │   fields in the order of their numbers; options that are empty
//!           │ the fields   │         │         │     │   and lists without items are left out at the end
//!           └──────────────┴─────────┴─────────┴─────┘
//!           ┌──────────────┬────────┐
//! variant   │ its number   │ record │   of an enum; only the number where no variant will ever have fields
//!           └──────────────┴────────┘
//! ```
//!
//! Promise: whatever the bytes are, decoding neither panics nor takes more memory than a small multiple of them. A
//! field that is missing at the end of a record takes its default if it has one (an option, a list), else it is an
//! error; so is a variant that is not known. Fields behind those that are known are an error for [`decode`], and
//! skipped by
//! [`decode_known`]: what is applied or rewritten must be understood as a whole (docs/adr/0014). The same value has the
//! same bytes in every program in which the fields behind are empty.

mod macros;
mod values;

/// A value that can be written down. Implemented by [`record!`](crate::record), [`variants!`](crate::variants) and
/// [`numbered!`](crate::numbered).
pub trait Encoded: Sized {
    fn encode(&self, out: &mut Vec<u8>);

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError>;

    /// What a field of this type is where an older program did not write it. `None`: it cannot be missing.
    fn absent() -> Option<Self> {
        None
    }

    /// True for the value of [`Encoded::absent`]: at the end of a record it is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Why bytes are no value of a type, or none that this program knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("it ends in the middle of a value")]
    End,
    #[error("a number is out of range")]
    Range,
    #[error("a text is not UTF-8")]
    Text,
    #[error("{of} lacks field {field}")]
    Missing { of: &'static str, field: u32 },
    #[error("{of} has {len} bytes behind the fields that this program knows; a newer one wrote it")]
    UnknownField { of: &'static str, len: usize },
    #[error("{of} has no variant {number} in this program; a newer one wrote it")]
    UnknownVariant { of: &'static str, number: u64 },
    #[error("{len} bytes behind the value")]
    Behind { len: usize },
    #[error("{of}: {reason}")]
    Value { of: &'static str, reason: String },
}

/// Appends `value`.
pub fn encode<T: Encoded>(value: &T, mut start: Vec<u8>) -> Vec<u8> {
    value.encode(&mut start);
    start
}

/// The value that `bytes` are, understood as a whole.
pub fn decode<T: Encoded>(bytes: &[u8]) -> Result<T, DecodeError> {
    whole(bytes, false)
}

/// As [`decode`], without the fields that a newer program added.
pub fn decode_known<T: Encoded>(bytes: &[u8]) -> Result<T, DecodeError> {
    whole(bytes, true)
}

fn whole<T: Encoded>(bytes: &[u8], skips_unknown: bool) -> Result<T, DecodeError> {
    let mut input = Input { bytes, skips_unknown };
    let value = T::decode(&mut input)?;
    input.end()?;
    Ok(value)
}

/// The fields of the record that `bytes` are, as [`decode`] understands it: for who borrows texts from it.
#[inline]
pub fn fields<'a>(of: &'static str, bytes: &'a [u8]) -> Result<Fields<'a>, DecodeError> {
    let mut input = Input { bytes, skips_unknown: false };
    let fields = input.record(of)?;
    input.end()?;
    Ok(fields)
}

/// Bytes that were not read yet.
#[derive(Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    skips_unknown: bool,
}

impl<'a> Input<'a> {
    #[inline]
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(len).ok().filter(|len| *len <= self.bytes.len()).ok_or(DecodeError::End)?;
        let (taken, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let len = u64::decode(self)?;
        str::from_utf8(self.take(len)?).map_err(|_| DecodeError::Text)
    }

    /// What is left.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    fn end(self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            len => Err(DecodeError::Behind { len }),
        }
    }

    /// The fields of a record that begins here.
    #[inline]
    pub fn record(&mut self, of: &'static str) -> Result<Fields<'a>, DecodeError> {
        let len = u64::decode(self)?;
        let skips_unknown = self.skips_unknown;
        Ok(Fields { input: Input { bytes: self.take(len)?, skips_unknown }, of, next: 0 })
    }
}

/// The fields of one record, in the order of their numbers.
#[derive(Debug)]
pub struct Fields<'a> {
    input: Input<'a>,
    of: &'static str,
    next: u32,
}

impl<'a> Fields<'a> {
    /// A field that is a text, and cannot be missing.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        let field = self.next;
        self.next += 1;
        if self.input.is_empty() {
            return Err(DecodeError::Missing { of: self.of, field });
        }
        self.input.text()
    }

    #[inline]
    pub fn field<T: Encoded>(&mut self) -> Result<T, DecodeError> {
        let field = self.next;
        self.next += 1;
        if self.input.is_empty() {
            return T::absent().ok_or(DecodeError::Missing { of: self.of, field });
        }
        T::decode(&mut self.input)
    }

    #[inline]
    pub fn end(self) -> Result<(), DecodeError> {
        match self.input.len() {
            0 => Ok(()),
            _ if self.input.skips_unknown => Ok(()),
            len => Err(DecodeError::UnknownField { of: self.of, len }),
        }
    }
}

/// A record that is being written: the place of its length, and the end of its last field that is not left out.
#[derive(Debug)]
pub struct Begun {
    at: usize,
    end: usize,
}

impl Begun {
    #[inline]
    pub fn new(out: &mut Vec<u8>) -> Self {
        // Most records are shorter than 128 bytes, and their length has one.
        out.push(0);
        Self { at: out.len() - 1, end: out.len() }
    }

    #[inline]
    pub fn field<T: Encoded>(&mut self, value: &T, out: &mut Vec<u8>) {
        value.encode(out);
        if !value.is_absent() {
            self.end = out.len();
        }
    }

    pub fn end(self, out: &mut Vec<u8>) {
        out.truncate(self.end);
        let len = out.len() - self.at - 1;
        if len < 0x80 {
            out[self.at] = len as u8;
            return;
        }
        let mut digits = Vec::with_capacity(10);
        len.encode(&mut digits);
        out.splice(self.at..=self.at, digits);
    }
}

/// Whether fields are numbered from 0 on without gaps; asked when a record is compiled.
pub const fn are_in_order(numbers: &[u32]) -> bool {
    let mut at = 0;
    while at < numbers.len() {
        if numbers[at] as usize != at {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockId, FsPath, Millis, NodeId, numbered, record, variants};
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Before {
        id: BlockId,
        path: FsPath,
        names: Vec<String>,
    }
    record!(Before { 0: id, 1: path, 2: names });

    /// The same record in the next version: two fields were added.
    #[derive(Clone, Debug, PartialEq)]
    struct After {
        id: BlockId,
        path: FsPath,
        names: Vec<String>,
        colour: Option<Colour>,
        weights: Vec<u32>,
    }
    record!(After { 0: id, 1: path, 2: names, 3: colour, 4: weights });

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Colour {
        Red,
        Blue,
    }
    numbered!(Colour { 0 => Red, 4 => Blue });

    #[derive(Clone, Debug, PartialEq)]
    enum Shape {
        Point,
        Circle { radius: u64, at: Option<(u64, u64)> },
        Named(String, Colour),
        Long(Before),
    }
    variants!(Shape {
        0 => Point, 1 => Circle { 0: radius, 1: at }, 2 => Named(0: name, 1: colour), 3 => Long[before]
    });

    /// As `Shape` was before.
    #[derive(Clone, Debug, PartialEq)]
    enum OldShape {
        Circle { radius: u64 },
    }
    variants!(OldShape { 1 => Circle { 0: radius } });

    proptest! {
        /// However long it is, and whatever follows it: there are two ways to read a number.
        #[test]
        fn numbers_are_read_as_they_were_written(
            number in any::<u64>(), bits in 0u32..64, behind in 0usize..9, cut in 1usize..10,
        ) {
            let number = number >> bits;
            let written = encode(&number, Vec::new());
            let mut bytes = written.clone();
            bytes.resize(written.len() + behind, 0xff);
            let mut input = Input { bytes: &bytes, skips_unknown: false };
            assert_eq!(u64::decode(&mut input), Ok(number));
            assert_eq!(input.len(), behind);
            assert_eq!(decode::<u32>(&written).ok(), u32::try_from(number).ok());
            assert_eq!(decode::<u16>(&written).ok(), u16::try_from(number).ok());
            if cut < written.len() {
                assert_eq!(decode::<u64>(&written[..cut]), Err(DecodeError::End));
            }
        }
    }

    fn before() -> Before {
        Before { id: BlockId(300), path: FsPath::parse("/a/b").unwrap(), names: vec!["x".into()] }
    }

    fn after() -> After {
        let Before { id, path, names } = before();
        After { id, path, names, colour: Some(Colour::Blue), weights: vec![7] }
    }

    #[test]
    fn the_bytes_are_as_drawn() {
        let bytes = [10, 0xac, 2, 4, b'/', b'a', b'/', b'b', 1, 1, b'x'];
        assert_eq!(encode(&before(), Vec::new()), bytes);
        assert_eq!(encode(&Shape::Point, Vec::new()), [0, 0]);
        assert_eq!(encode(&Shape::Circle { radius: 7, at: None }, Vec::new()), [1, 1, 7]);
        assert_eq!(encode(&Shape::Named("n".into(), Colour::Red), Vec::new()), [2, 3, 1, b'n', 0]);
        assert_eq!(encode(&Shape::Long(before()), Vec::new()), [&[3][..], &bytes].concat());
    }

    /// A field is added: today's program reads the rows of the one before, and writes them as that one does as long as
    /// the field is not used.
    #[test]
    fn a_field_that_an_older_program_did_not_write_takes_its_default() {
        let old = encode(&before(), Vec::new());
        let read: After = decode(&old).unwrap();
        assert_eq!(read, After { colour: None, weights: Vec::new(), ..after() });
        assert_eq!(encode(&read, Vec::new()), old);
        let circle: Shape = decode(&encode(&OldShape::Circle { radius: 7 }, Vec::new())).unwrap();
        assert_eq!(circle, Shape::Circle { radius: 7, at: None });
    }

    #[test]
    fn a_field_of_a_newer_program_is_skipped_where_that_does_no_harm() {
        let new = encode(&after(), Vec::new());
        assert_eq!(decode_known::<Before>(&new), Ok(before()));
        assert_eq!(decode::<Before>(&new), Err(DecodeError::UnknownField { of: "Before", len: 4 }));
        // Behind it, in the same list, all is where it should be.
        let list = encode(&vec![after(), after()], Vec::new());
        assert_eq!(decode_known::<Vec<Before>>(&list), Ok(vec![before(), before()]));
        let circle = encode(&Shape::Circle { radius: 7, at: Some((1, 2)) }, Vec::new());
        assert_eq!(decode_known::<OldShape>(&circle), Ok(OldShape::Circle { radius: 7 }));
    }

    /// Also within an option: it must not look as if there were nothing.
    #[test]
    fn a_variant_of_a_newer_program_is_an_error() {
        let unknown = Err(DecodeError::UnknownVariant { of: "OldShape", number: 2 });
        let named = Shape::Named("n".into(), Colour::Red);
        assert_eq!(decode_known::<OldShape>(&encode(&named, Vec::new())), unknown);
        let unknown = Err(DecodeError::UnknownVariant { of: "OldShape", number: 2 });
        assert_eq!(decode_known::<Option<OldShape>>(&encode(&Some(named), Vec::new())), unknown);
        assert_eq!(decode::<Colour>(&[1]), Err(DecodeError::UnknownVariant { of: "Colour", number: 1 }));
    }

    #[test]
    fn a_field_without_a_default_cannot_be_missing() {
        assert_eq!(decode::<Before>(&[0]), Err(DecodeError::Missing { of: "Before", field: 0 }));
        assert_eq!(decode::<Before>(&[1, 7]), Err(DecodeError::Missing { of: "Before", field: 1 }));
    }

    #[test]
    fn a_length_is_not_believed() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(decode::<String>(&most), Err(DecodeError::End));
        assert_eq!(decode::<Vec<u64>>(&most), Err(DecodeError::End));
        assert_eq!(decode::<Before>(&most), Err(DecodeError::End));
        let more = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(decode::<u64>(&more), Err(DecodeError::Range));
        assert_eq!(decode::<u16>(&[0x80, 0x80, 4]), Err(DecodeError::Range));
        assert_eq!(decode::<bool>(&[2]), Err(DecodeError::Range));
        assert_eq!(decode::<u64>(&[1, 1]), Err(DecodeError::Behind { len: 1 }));
        assert!(matches!(decode::<FsPath>(&[1, b'a']), Err(DecodeError::Value { .. })));
    }

    #[test]
    fn long_records_have_long_lengths() {
        for len in [100, 126, 127, 128, 129, 20_000] {
            let long = Shape::Long(Before { names: vec!["n".repeat(len)], ..before() });
            let bytes = encode(&long, Vec::new());
            assert_eq!(decode(&bytes), Ok(long), "{len}");
        }
    }

    #[test]
    fn values_survive_their_bytes() {
        fn check<T: Encoded + PartialEq + std::fmt::Debug>(value: T) {
            assert_eq!(decode(&encode(&value, Vec::new())), Ok(value));
        }
        check((u64::MAX, true));
        check((u128::MAX, i32::MIN, -1_i32));
        check([0_u8, 127, 128, 255].to_vec());
        check((NodeId([0xfe; 16]), Millis(1_700_000_000_000), usize::MAX));
        check(std::collections::BTreeMap::from([(1_u64, "a".to_owned()), (2, String::new())]));
        check(std::collections::BTreeSet::from([u32::MAX, 0]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            for skips_unknown in [false, true] {
                if let Ok(value) = whole::<After>(&bytes, skips_unknown) {
                    prop_assert_eq!(decode(&encode(&value, Vec::new())), Ok(value));
                }
                let _ = whole::<Vec<Shape>>(&bytes, skips_unknown);
            }
        }
    }
}
