//! Flatbuffers, as far as Arrow's footers and messages need them. Little-endian.
//!
//! ```text
//!  start   place of the table ─ u32
//!  table   how far before it its fields' list is ─ i32 ┬ fields …
//!  list    its len ─ u16 ┬ len of the table ─ u16 ┬ of each field how far behind the begin of the table, or 0 ─ u16
//!  vector  count ─ u32 ┬ structs, or places of tables      a place counts from where it stands itself
//! ```

use crate::error::{LayoutError, Result};

const DAMAGED: LayoutError = LayoutError::Damaged("a flatbuffer points outside of itself");

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat<'a> {
    bytes: &'a [u8],
    /// Of the table.
    at: usize,
}

impl<'a> Flat<'a> {
    pub(crate) fn start(bytes: &'a [u8]) -> Result<Self> {
        let start = Self { bytes, at: 0 };
        Ok(Self { bytes, at: start.follow(0)? })
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().ok_or(DAMAGED)
    }

    /// What the place at `at` points to.
    fn follow(&self, at: usize) -> Result<usize> {
        at.checked_add(u32::from_le_bytes(self.array(at)?) as usize).ok_or(DAMAGED)
    }

    /// Where a field of the table is, if it is there.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let back = i32::from_le_bytes(self.array(self.at)?);
        let list = i64::try_from(self.at).ok().and_then(|at| at.checked_sub(back.into()));
        let list = list.and_then(|list| usize::try_from(list).ok()).ok_or(DAMAGED)?;
        let list_len = usize::from(u16::from_le_bytes(self.array(list)?));
        let place = number.saturating_mul(2).saturating_add(4);
        if place + 2 > list_len {
            return Ok(None);
        }
        match u16::from_le_bytes(self.array(list.checked_add(place).ok_or(DAMAGED)?)?) {
            0 => Ok(None),
            far => Ok(Some(self.at + usize::from(far))),
        }
    }

    pub(crate) fn u8(&self, number: usize) -> Result<u8> {
        self.field(number)?.map_or(Ok(0), |at| Ok(u8::from_le_bytes(self.array(at)?)))
    }

    pub(crate) fn u16(&self, number: usize) -> Result<u16> {
        self.field(number)?.map_or(Ok(0), |at| Ok(u16::from_le_bytes(self.array(at)?)))
    }

    pub(crate) fn i64(&self, number: usize) -> Result<i64> {
        self.field(number)?.map_or(Ok(0), |at| Ok(i64::from_le_bytes(self.array(at)?)))
    }

    pub(crate) fn table(&self, number: usize) -> Result<Option<Self>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        Ok(Some(Self { bytes: self.bytes, at: self.follow(at)? }))
    }

    /// The elements of a vector, of `len` bytes each.
    fn vector(&self, number: usize, len: usize) -> Result<(usize, &'a [u8])> {
        let Some(at) = self.field(number)? else { return Ok((0, &[])) };
        let at = self.follow(at)?;
        let count = u32::from_le_bytes(self.array(at)?) as usize;
        let elements = self.bytes.get(at + 4..).and_then(|rest| rest.get(..count.checked_mul(len)?));
        Ok((at + 4, elements.ok_or(DAMAGED)?))
    }

    pub(crate) fn text(&self, number: usize) -> Result<&'a [u8]> {
        Ok(self.vector(number, 1)?.1)
    }

    pub(crate) fn structs<const N: usize>(&self, number: usize) -> Result<&'a [[u8; N]]> {
        Ok(self.vector(number, N)?.1.as_chunks().0)
    }

    pub(crate) fn tables(&self, number: usize) -> Result<impl Iterator<Item = Result<Self>> + use<'a>> {
        let (begin, places) = self.vector(number, 4)?;
        let this = *self;
        Ok((0..places.len() / 4).map(move |place| Ok(Self { bytes: this.bytes, at: this.follow(begin + 4 * place)? })))
    }
}
