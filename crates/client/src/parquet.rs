//! Where the pieces of a Parquet file's columns lie, from its footer: pure. A reader of columns asks for them one after
//! the other; who knows where they are can have them come together.
//!
//! ```text
//! ┌──────┬─────────────────── row group ──────────────────┬ … ┬────────┬─────┬──────┐
//! │ PAR1 │ piece of column 0 │ of column 1 │ of column 2 …│   │ footer │ len │ PAR1 │
//! └──────┴───────────────────┴─────────────┴──────────────┴   ┴────────┴─────┴──────┘
//! ```
//!
//! The footer is a struct in Thrift's compact protocol. What is not understood of it is passed over, and what makes no
//! sense ends the reading: then nothing is known, and nobody is the worse for it.

/// A column's bytes of one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    pub offset: u64,
    pub len: u64,
    /// Its number, in the order of the file's schema.
    pub column: u32,
}

/// Bytes at the end of a file that say how long its footer is.
pub const TRAILER_LEN: usize = 8;
const MAGIC: &[u8] = b"PAR1";
/// Structs and lists within each other; Parquet's own go to seven. A guess, far above.
const DEPTH_MAX: u32 = 32;

/// The length of the footer, from the last bytes of a file. `None`: it is no Parquet file, or its footer is encrypted.
pub fn footer_len(trailer: &[u8; TRAILER_LEN]) -> Option<u32> {
    let [a, b, c, d, magic @ ..] = *trailer;
    (magic == *MAGIC).then(|| u32::from_le_bytes([a, b, c, d]))
}

/// All pieces that a footer names, in the order of the file. `None`: it is not understood.
pub fn pieces(footer: &[u8]) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut reader = Thrift { left: footer };
    reader.fields(&mut |reader, id, kind| match (id, kind) {
        (4, LIST) => reader.list(&mut |group, kind| match kind {
            STRUCT => row_group(group, &mut pieces),
            _ => None,
        }),
        _ => reader.skip(kind, 0),
    })?;
    pieces.sort_unstable();
    Some(pieces)
}

fn row_group(reader: &mut Thrift<'_>, pieces: &mut Vec<Piece>) -> Option<()> {
    reader.fields(&mut |reader, id, kind| match (id, kind) {
        (1, LIST) => {
            let mut column = 0;
            reader.list(&mut |chunk, kind| {
                let (offset, len) = if kind == STRUCT { column_chunk(chunk)? } else { return None };
                offset.checked_add(len)?;
                pieces.push(Piece { offset, len, column });
                column += 1;
                Some(())
            })
        }
        _ => reader.skip(kind, 0),
    })
}

/// Offset and length. `None` also where they lie in another file.
fn column_chunk(reader: &mut Thrift<'_>) -> Option<(u64, u64)> {
    let (mut len, mut data, mut dictionary) = (None, None, None);
    reader.fields(&mut |reader, id, kind| match (id, kind) {
        (1, _) => None,
        (3, STRUCT) => reader.fields(&mut |reader, id, kind| {
            let number = match (id, kind) {
                (7, I64) => &mut len,
                (9, I64) => &mut data,
                (11, I64) => &mut dictionary,
                _ => return reader.skip(kind, 0),
            };
            *number = Some(u64::try_from(reader.zigzag()?).ok()?);
            Some(())
        }),
        _ => reader.skip(kind, 0),
    })?;
    // Some writers say 0 where there is no dictionary.
    let dictionary = dictionary.filter(|offset| *offset > 0);
    Some((dictionary.into_iter().chain(data).min()?, len?))
}

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Thrift's compact protocol: varints, and what is of no interest is passed over by its type.
struct Thrift<'a> {
    left: &'a [u8],
}

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(*first)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.left = self.left.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Each field of a struct, by its number and type.
    fn fields(&mut self, on_field: &mut dyn FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == STOP {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                more => i64::checked_add(id, more.into())?,
            };
            on_field(self, id, head & 15)?;
        }
    }

    /// Each element of a list, by its type.
    fn list(&mut self, on_element: &mut dyn FnMut(&mut Self, u8) -> Option<()>) -> Option<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            short => short.into(),
        };
        // Elements of no bytes would let a few bytes ask for endless work.
        if count > self.left.len() as u64 {
            return None;
        }
        (0..count).try_for_each(|_| on_element(self, head & 15))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            // In the head of their field.
            TRUE | FALSE => Some(()),
            I8 => self.pass(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let len = self.varint()?;
                self.pass(len)
            }
            LIST | SET => self.list(&mut |element, kind| element.skip_element(kind, depth + 1)),
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                if count > self.left.len() as u64 {
                    return None;
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 15, depth + 1)
                })
            }
            STRUCT => self.fields(&mut |field, _, kind| field.skip(kind, depth + 1)),
            _ => None,
        }
    }

    /// In a list a truth is a byte.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            TRUE | FALSE => self.pass(1),
            _ => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Random;
    use types::random::Seeded;

    /// pyarrow 26 wrote it: columns of integers, of lists, and of texts with a dictionary, in two row groups.
    const GOLDEN: &str = "\
        1504196c35001806736368656d6115060015022502180161003502180162150215064c3c000000350418046c69737415\
        0200150825021807656c656d656e7400150c250218016325004c1c0000001608192c193c26001c150219250600191801\
        61150c1604167a168c0126083c1804020000001804010000001600280402000000180401000000111100191c15001500\
        1502003c29061926000400000026001c15081925060019380162046c69737407656c656d656e74150c160816960116a8\
        012694013c1804000040401804000000801600280400004040180400000080111100191c150015001502003c29260404\
        19460000000800000026001c150c193500061019180163150c1604167c16a00126fe0226bc021c360028017918017811\
        1100192c15041500150200150015101502003c1604190619260004000000168c031604260816d40300193c26001c1502\
        1925060019180161150c1604167a168c0126dc033c180404000000180403000000160028040400000018040300000011\
        1100191c150015001502003c29061926000400000026001c15081925060019380162046c69737407656c656d656e7415\
        0c160816960116a80126e8043c18040000e040180400008040160028040000e040180400008040111100191c15001500\
        1502003c2926040419460000000800000026001c150c193500061019180163150c1604167c16a00126d2062690061c36\
        00280179180178111100192c15041500150200150015101502003c1604190619260004000000168c03160426dc0316d4\
        03002820706172717565742d6370702d6172726f772076657273696f6e2032362e302e31193c1c00001c00001c000000";

    fn golden() -> Vec<u8> {
        let digits = GOLDEN.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    #[test]
    fn pieces_lie_where_pyarrow_says() {
        let found: Vec<_> = pieces(&golden()).unwrap().iter().map(|p| (p.offset, p.len, p.column)).collect();
        assert_eq!(found, [(4, 70, 0), (74, 84, 1), (158, 80, 2), (238, 70, 0), (308, 84, 1), (392, 80, 2)]);
    }

    #[test]
    fn the_last_bytes_tell_how_long_a_footer_is() {
        assert_eq!(footer_len(b"\x71\x6d\x06\x00PAR1"), Some(421_233));
        // Encrypted, and no Parquet at all.
        assert_eq!((footer_len(b"\x71\x6d\x06\x00PARE"), footer_len(b"ROOT\0\0\0\0")), (None, None));
    }

    #[test]
    fn what_is_cut_or_changed_is_read_or_refused_and_never_more() {
        let (whole, mut random) = (golden(), Seeded(11));
        for len in 0..whole.len() {
            assert_eq!(pieces(&whole[..len]), None, "{len} bytes of a footer");
        }
        for _ in 0..20_000 {
            let mut changed = whole.clone();
            for _ in 0..=random.next_u64() % 4 {
                let at = random.next_u64() as usize % changed.len();
                changed[at] = random.next_u64() as u8;
            }
            let found = pieces(&changed).unwrap_or_default();
            assert!(found.len() <= changed.len(), "{} pieces", found.len());
        }
    }

    #[test]
    fn structs_within_each_other_have_an_end() {
        // A field of no interest that is a struct with such a field, and so on.
        assert_eq!(pieces(&[0x1c; 100_000]), None);
        // A list of as many truths as a number can say.
        assert_eq!(pieces(b"\x19\xf1\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), None);
    }
}
