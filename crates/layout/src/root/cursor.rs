//! A place in an object of ROOT: big-endian numbers, texts, and the heads of objects that say how long they are.
//!
//! ```text
//!  object     ┌ 0x4000_0000 | len of the rest ─ u32 ┬ version ─ u16 ┬ members … ┐
//!  pointer    0                                                    to nothing
//!             place ─ u32                                           to an object that was written before
//!             ┌ 0x4000_0000 | len of the rest ─ u32 ┬ class ─ u32 ┬ object … ┐
//!  class      0xffff_ffff, name, 0                                  the first time
//!             0x8000_0000 | place                                   later
//! ```
//!
//! A place counts from the begin of the key, 2 more: what a class's is called can be looked up there.

use crate::error::{LayoutError, Result};

const HAS_LEN: u32 = 0x4000_0000;
const IS_CLASS: u32 = 0x8000_0000;
const NEW_CLASS: u32 = 0xffff_ffff;
const PLACE_OFFSET: usize = 2;
/// Those that are looked at have short ones. What a class is called is looked up each time: this bounds the time.
const CLASS_NAME_LEN_MAX: usize = 256;
/// In the bits of a `TObject`: the number of a process follows.
const IS_REFERENCED: u32 = 1 << 4;

const CUT: LayoutError = LayoutError::Damaged("an object ends too early");

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    /// The whole object of the key: pointers lead back into it.
    object: &'a [u8],
    at: usize,
    /// Of what is being read.
    end: usize,
    /// Bytes of the key before the object.
    key_len: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(object: &'a [u8], key_len: usize) -> Self {
        Self { object, at: 0, end: object.len(), key_len }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.end).ok_or(CUT)?;
        let taken = self.object.get(self.at..end).ok_or(CUT)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| CUT)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// A length or a count: it is not below zero.
    pub(crate) fn count(&mut self) -> Result<u64> {
        self.i32()?.try_into().map_err(|_| LayoutError::Damaged("a length is below zero"))
    }

    /// A place in the file, which was once written in 32 bits.
    pub(crate) fn place(&mut self, is_long: bool) -> Result<u64> {
        if is_long { Ok(u64::from_be_bytes(self.array()?)) } else { Ok(self.u32()?.into()) }
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let len = match self.u8()? {
            255 => self.u32()? as usize,
            short => short.into(),
        };
        self.take(len)
    }

    /// The head of an object: its version, and a cursor that ends where it does. This one goes on behind it.
    pub(crate) fn object(&mut self) -> Result<(u16, Self)> {
        let head = self.u32()?;
        if head & HAS_LEN == 0 {
            return Err(LayoutError::Unknown("an object does not say how long it is, as in files of old versions"));
        }
        let mut inner = self.part((head & !HAS_LEN) as usize)?;
        Ok((inner.u16()?, inner))
    }

    /// The next bytes as a cursor of their own.
    fn part(&mut self, len: usize) -> Result<Self> {
        let mut part = *self;
        self.take(len)?;
        part.end = self.at;
        Ok(part)
    }

    /// What a pointer leads to: the name of its class, and a cursor over the object. `None`: nothing, or an object that
    /// was there before.
    pub(crate) fn pointer(&mut self) -> Result<Option<(&'a [u8], Self)>> {
        let Some(mut inner) = self.pointed()? else { return Ok(None) };
        Ok(Some((inner.class()?, inner)))
    }

    /// The same, before its class is looked at.
    pub(crate) fn pointed(&mut self) -> Result<Option<Self>> {
        let head = self.u32()?;
        if head == NEW_CLASS {
            return Err(LayoutError::Unknown("an object does not say how long it is, as in files of old versions"));
        }
        if head & HAS_LEN == 0 {
            return Ok(None);
        }
        self.part((head & !HAS_LEN) as usize).map(Some)
    }

    fn class(&mut self) -> Result<&'a [u8]> {
        const DAMAGED: LayoutError = LayoutError::Damaged("an object has no class");
        let tag = self.u32()?;
        if tag == NEW_CLASS {
            return self.name();
        }
        if tag & IS_CLASS == 0 {
            return Err(DAMAGED);
        }
        let place = (tag & !IS_CLASS) as usize;
        let at = place.checked_sub(PLACE_OFFSET + self.key_len).ok_or(DAMAGED)?;
        let mut there = Self { at, end: self.object.len(), ..*self };
        if there.u32()? == NEW_CLASS { there.name() } else { Err(DAMAGED) }
    }

    /// Up to a zero.
    fn name(&mut self) -> Result<&'a [u8]> {
        let rest = self.object.get(self.at..self.end).unwrap_or_default();
        let rest = rest.get(..CLASS_NAME_LEN_MAX).unwrap_or(rest);
        let len = rest.iter().position(|byte| *byte == 0).ok_or(CUT)?;
        let name = self.take(len)?;
        self.take(1)?;
        Ok(name)
    }

    /// A `TObject`, which alone does not say how long it is.
    pub(crate) fn plain_object(&mut self) -> Result<()> {
        if self.u16()? & (HAS_LEN >> 16) as u16 != 0 {
            // It does, after all: the rest of that, and the version.
            self.take(4)?;
        }
        self.take(4)?;
        if self.u32()? & IS_REFERENCED != 0 {
            self.take(2)?;
        }
        Ok(())
    }

    /// The name of a `TNamed`.
    pub(crate) fn named(&mut self) -> Result<&'a [u8]> {
        let (_, mut named) = self.object()?;
        named.plain_object()?;
        named.text()
    }

    /// The elements of a `TObjArray`: a cursor at the first, and how many there are.
    pub(crate) fn elements(&mut self) -> Result<(u64, Self)> {
        let (version, mut array) = self.object()?;
        if version > 2 {
            array.plain_object()?;
        }
        if version > 1 {
            array.text()?;
        }
        let count = array.count()?;
        array.take(4)?;
        // Each takes four bytes at least.
        if count > (array.end - array.at) as u64 / 4 {
            return Err(CUT);
        }
        Ok((count, array))
    }
}
