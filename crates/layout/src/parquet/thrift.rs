//! Thrift's compact protocol: varints, and what is of no interest is passed over by its type.

use crate::error::{LayoutError, Result};

pub(crate) const TRUE: u8 = 1;
pub(crate) const FALSE: u8 = 2;
pub(crate) const I8: u8 = 3;
pub(crate) const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
pub(crate) const I64: u8 = 6;
pub(crate) const DOUBLE: u8 = 7;
pub(crate) const BINARY: u8 = 8;
pub(crate) const LIST: u8 = 9;
pub(crate) const SET: u8 = 10;
pub(crate) const MAP: u8 = 11;
pub(crate) const STRUCT: u8 = 12;
const STOP: u8 = 0;

/// Structs and lists within each other; Parquet's own go to seven. A guess, far above.
const DEPTH_MAX: u32 = 32;

pub(crate) struct Thrift<'a> {
    left: &'a [u8],
}

const CUT: LayoutError = LayoutError::Damaged("a struct in Thrift's protocol ends too early");
const KIND: LayoutError = LayoutError::Damaged("a struct in Thrift's protocol has a field of no known type");

type OnField<'f, 'a> = &'f mut dyn FnMut(&mut Thrift<'a>, i64, u8) -> Result<()>;

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.left.split_first().ok_or(CUT)?;
        self.left = rest;
        Ok(*first)
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| CUT)?;
        let (taken, rest) = self.left.split_at_checked(count).ok_or(CUT)?;
        self.left = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(LayoutError::Damaged("a number in Thrift's protocol is too long"))
    }

    fn zigzag(&mut self) -> Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A number that cannot be below zero: a length, a place, a count.
    pub(crate) fn count(&mut self) -> Result<u64> {
        u64::try_from(self.zigzag()?).map_err(|_| LayoutError::Damaged("a length or place is below zero"))
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        self.take(len)
    }

    /// Each field of a struct, by its number and type.
    pub(crate) fn fields(&mut self, on_field: OnField<'_, 'a>) -> Result<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == STOP {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                more => i64::checked_add(id, more.into()).ok_or(KIND)?,
            };
            on_field(self, id, head & 15)?;
        }
    }

    /// Each element of a list, by its type.
    pub(crate) fn list(&mut self, on_element: &mut dyn FnMut(&mut Self, u8) -> Result<()>) -> Result<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            short => short.into(),
        };
        self.bound(count)?;
        (0..count).try_for_each(|_| on_element(self, head & 15))
    }

    /// Each struct of a list of structs.
    pub(crate) fn structs(&mut self, on_struct: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.list(&mut |element, kind| if kind == STRUCT { on_struct(element) } else { Err(KIND) })
    }

    /// Elements of no bytes would let a few bytes ask for endless work.
    fn bound(&self, count: u64) -> Result<()> {
        if count > self.left.len() as u64 { Err(CUT) } else { Ok(()) }
    }

    pub(crate) fn skip(&mut self, kind: u8) -> Result<()> {
        self.skip_at(kind, 0)
    }

    fn skip_at(&mut self, kind: u8, depth: u32) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(LayoutError::Damaged("structs in Thrift's protocol lie too deep within each other"));
        }
        match kind {
            // In the head of their field.
            TRUE | FALSE => Ok(()),
            I8 => self.take(1).map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.take(8).map(drop),
            BINARY => self.text().map(drop),
            LIST | SET => self.list(&mut |element, kind| element.skip_element(kind, depth + 1)),
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Ok(());
                }
                self.bound(count)?;
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 15, depth + 1)
                })
            }
            STRUCT => self.fields(&mut |field, _, kind| field.skip_at(kind, depth + 1)),
            _ => Err(KIND),
        }
    }

    /// In a list a truth is a byte.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Result<()> {
        match kind {
            TRUE | FALSE => self.take(1).map(drop),
            _ => self.skip_at(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(bytes: &[u8]) -> Result<()> {
        Thrift::new(bytes).skip(STRUCT)
    }

    #[test]
    fn structs_within_each_other_have_an_end() {
        // A field of no interest that is a struct with such a field, and so on.
        assert!(skipped(&[0x1c; 100_000]).is_err());
        // A list of as many truths as a number can say.
        assert!(skipped(b"\x19\xf1\xff\xff\xff\xff\xff\xff\xff\xff\x7f").is_err());
        // Lists of lists: each element costs a byte.
        assert!(skipped(&[&[0x19][..], &[0xf9; 100]].concat()).is_err());
    }
}
