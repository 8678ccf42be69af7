//! Metadata as ORC compresses it: a row of chunks, each compressed by itself.
//!
//! ```text
//! ┌ head ─ u24, little-endian ┬ bytes …      head: twice their length, and one more if they are not compressed
//! └───────────────────────────┴───────
//! ```
//!
//! No chunk holds more than the block length that the file names.

use super::snappy::snappy;
use crate::decoders::{self, STORED_COST};
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use std::borrow::Cow;

/// As long as a head can tell.
const BLOCK_LEN_MAX: u64 = 1 << 23;

const DAMAGED: LayoutError = LayoutError::Damaged("a chunk of its metadata is longer than all of it");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Plain,
    Chunks { method: Method, block_len: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Deflate alone, though it is called zlib.
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    /// By its number in the postscript.
    pub(crate) fn of(number: u64, block_len: u64) -> Result<Self> {
        let method = match number {
            0 => return Ok(Self::Plain),
            1 => Method::Zlib,
            2 => Method::Snappy,
            3 => return Err(LayoutError::Unknown("it is compressed by LZO")),
            4 => Method::Lz4,
            5 => Method::Zstd,
            _ => return Err(LayoutError::Unknown("it is compressed by an unknown method")),
        };
        if block_len > BLOCK_LEN_MAX {
            return Err(LayoutError::Damaged("its blocks are longer than a chunk can be"));
        }
        Ok(Self::Chunks { method, block_len: block_len as usize })
    }

    pub(crate) fn unpack<'a>(self, stored: &'a [u8], budget: &mut Budget) -> Result<Cow<'a, [u8]>> {
        let Self::Chunks { method, block_len } = self else { return Ok(Cow::Borrowed(stored)) };
        // Chunks are full but for the last: so this is little more than there is, unless they lie.
        let len_max = chunks(stored).try_fold(0_u64, |sum, chunk| {
            let (is_plain, bytes) = chunk?;
            Ok(sum.saturating_add(if is_plain { bytes.len() as u64 } else { block_len as u64 }))
        })?;
        budget.object_room(len_max)?;
        budget.work((stored.len() as u64).saturating_mul(STORED_COST))?;
        let mut plain = Vec::new();
        for chunk in chunks(stored) {
            let (is_plain, bytes) = chunk?;
            match method {
                _ if is_plain => plain.extend_from_slice(bytes),
                Method::Zlib => decoders::deflate(bytes, block_len, &mut plain)?,
                Method::Snappy => snappy(bytes, block_len, &mut plain)?,
                Method::Lz4 => decoders::lz4(bytes, block_len, &mut plain)?,
                Method::Zstd => decoders::zstd(bytes, block_len, &mut plain)?,
            }
        }
        budget.work(plain.len() as u64)?;
        Ok(Cow::Owned(plain))
    }
}

/// Each chunk, and whether it is as it was.
fn chunks(stored: &[u8]) -> impl Iterator<Item = Result<(bool, &[u8])>> {
    let mut left = stored;
    std::iter::from_fn(move || {
        let [a, b, c, rest @ ..] = left else {
            let is_cut = !std::mem::take(&mut left).is_empty();
            return is_cut.then_some(Err(DAMAGED));
        };
        let head = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let Some((chunk, rest)) = rest.split_at_checked(head >> 1) else {
            left = &[];
            return Some(Err(DAMAGED));
        };
        left = rest;
        Some(Ok((head & 1 == 1, chunk)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::what::What;

    fn budget() -> Budget {
        Budget::new(Limits { objects_len_max: 10_000, object_len_max: 1000, ..Limits::default() })
    }

    fn unpack(stored: &[u8], block_len: u64) -> Result<Vec<u8>> {
        Ok(Codec::of(1, block_len)?.unpack(stored, &mut budget())?.into_owned())
    }

    fn chunk(bytes: &[u8], is_plain: bool) -> Vec<u8> {
        let head = (bytes.len() as u32) << 1 | u32::from(is_plain);
        [&head.to_le_bytes()[..3], bytes].concat()
    }

    #[test]
    fn chunks_are_put_together() {
        let deflated = miniz_oxide::deflate::compress_to_vec(&[7; 100], 6);
        let stored = [chunk(b"plain", true), chunk(&deflated, false), chunk(b"", true)].concat();
        assert_eq!(unpack(&stored, 100).unwrap(), [&b"plain"[..], &[7; 100]].concat());
        assert!(unpack(&stored, 99).is_err(), "more than a block");
        let whole = (0..stored.len()).filter(|len| unpack(&stored[..*len], 100).is_ok());
        assert_eq!(whole.collect::<Vec<_>>(), [0, 8, stored.len() - 3]);
        assert_eq!(Codec::of(0, 5).unwrap().unpack(b"as it is", &mut budget()).unwrap(), &b"as it is"[..]);
    }

    #[test]
    fn what_is_stored_and_what_comes_of_it_counts() {
        let too_large = |stored: &[u8], block_len| match unpack(stored, block_len) {
            Err(LayoutError::TooLarge { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(too_large(&chunk(b"x", false), 1001), What::Object);
        assert_eq!(too_large(&chunk(&[0; 2000], false), 100), What::Objects);
        assert!(Codec::of(1, BLOCK_LEN_MAX + 1).is_err());
    }

    #[test]
    fn other_methods_are_refused_at_once() {
        for number in [3, 6, u64::MAX] {
            assert!(matches!(Codec::of(number, 1 << 16), Err(LayoutError::Unknown(_))), "{number}");
        }
    }
}
