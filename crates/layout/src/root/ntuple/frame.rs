//! Frames and envelopes of RNTuple. Little-endian.
//!
//! ```text
//!  envelope  type, len ─ u16, u48 ┬ payload ┬ checksum ─ u64, which is not verified
//!  record    len ─ i64 ┬ fields, perhaps some more than are known here
//!  list      -len ─ i64 ┬ count ─ u32 ┬ items
//!  locator   len ─ i32 ┬ place ─ u64      or 0xff00_0000 and the like, with a len of 8 bytes
//! ```

use crate::error::{LayoutError, Result};
use crate::want::Want;

const CUT: LayoutError = LayoutError::Damaged("a part of an ntuple's description ends too early");

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    left: &'a [u8],
}

/// What an envelope may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Envelope {
    Header = 1,
    Footer = 2,
    Pages = 3,
}

impl<'a> Frame<'a> {
    /// The payload of an envelope.
    pub(crate) fn envelope(bytes: &'a [u8], kind: Envelope) -> Result<Self> {
        let mut frame = Self { left: bytes };
        let head = frame.u64()?;
        let checksum_at = bytes.len().checked_sub(8).ok_or(CUT)?;
        if head & 0xffff != kind as u64 || head >> 16 != bytes.len() as u64 || checksum_at < 8 {
            return Err(LayoutError::Damaged("a part of an ntuple is not what it should be"));
        }
        Ok(Self { left: bytes.get(8..checksum_at).ok_or(CUT)? })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.left.split_at_checked(count).ok_or(CUT)?;
        self.left = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| CUT)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// None of the features that change how the rest is read is known today.
    pub(crate) fn features(&mut self) -> Result<()> {
        if self.u64()? == 0 {
            Ok(())
        } else {
            Err(LayoutError::Unknown("an ntuple has features that are not known here"))
        }
    }

    pub(crate) fn record(&mut self) -> Result<Self> {
        let len = self.i64()?.checked_sub(8).and_then(|len| usize::try_from(len).ok()).ok_or(CUT)?;
        Ok(Self { left: self.take(len)? })
    }

    /// A cursor at its first item, and how many there are.
    pub(crate) fn list(&mut self) -> Result<(u32, Self)> {
        let len = self.i64()?.checked_neg().and_then(|len| usize::try_from(len.checked_sub(8)?).ok()).ok_or(CUT)?;
        let mut list = Self { left: self.take(len)? };
        let count = list.u32()?;
        // No item is empty.
        if count as usize > list.left.len() { Err(CUT) } else { Ok((count, list)) }
    }

    pub(crate) fn locator(&mut self) -> Result<Want> {
        const LARGE: i32 = 1;
        let head = self.i32()?;
        let len = match u64::try_from(head) {
            Ok(len) => len,
            Err(_) if head.wrapping_neg() >> 24 == LARGE => self.u64()?,
            Err(_) => return Err(LayoutError::Unknown("an ntuple's pages are in no file")),
        };
        Ok(Want { offset: self.u64()?, len })
    }

    /// How long something is decompressed, and where it is.
    pub(crate) fn link(&mut self) -> Result<(u64, Want)> {
        Ok((self.u64()?, self.locator()?))
    }
}
