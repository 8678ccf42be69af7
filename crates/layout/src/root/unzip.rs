//! Objects as ROOT stores them: as they are, or as a row of blocks, each compressed by itself.
//!
//! ```text
//! ┌ method ─ 2 letters ┬ version ─ u8 ┬ stored_len ─ u24 ┬ len ─ u24 ┬ bytes …      lengths little-endian
//! └ "ZL" zlib · "XZ" xz · "L4" LZ4, behind a checksum of 8 bytes · "ZS" zstd · "CS" plain deflate, until 2005
//! ```
//!
//! LZ4's checksum is not verified: what a wrong layout costs is bytes that nobody asked for.

use crate::decoders::{self, DAMAGED, STORED_COST};
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use std::borrow::Cow;

const HEAD_LEN: usize = 9;
const LZ4_SUM_LEN: usize = 8;
/// Blocks are full but for the last, so an object of n MiB has few. Each may take a window, and time for that.
const BLOCK_LEN_USUAL: usize = 1 << 20;
const BLOCK_COUNT_LEAST: usize = 16;

/// An object of `len` bytes.
pub(crate) fn unzip<'a>(stored: &'a [u8], len: u64, budget: &mut Budget) -> Result<Cow<'a, [u8]>> {
    if stored.len() as u64 == len {
        return Ok(Cow::Borrowed(stored));
    }
    budget.object(len)?;
    budget.work((stored.len() as u64).saturating_mul(STORED_COST))?;
    let len = usize::try_from(len).map_err(|_| DAMAGED)?;
    // Not all at once: the blocks may be fewer than they claim.
    let mut object = Vec::new();
    let (mut left, mut block_count) = (stored, 0);
    while object.len() < len {
        block_count += 1;
        if block_count > BLOCK_COUNT_LEAST + len / BLOCK_LEN_USUAL {
            return Err(LayoutError::Unknown("an object is compressed in blocks that are very small"));
        }
        let (head, rest) = left.split_at_checked(HEAD_LEN).ok_or(DAMAGED)?;
        let [m, n, _, a, b, c, d, e, f] = *head else { return Err(DAMAGED) };
        let u24 = |low, middle, high| u32::from_le_bytes([low, middle, high, 0]) as usize;
        let (block, rest) = rest.split_at_checked(u24(a, b, c)).ok_or(DAMAGED)?;
        let block_len = u24(d, e, f);
        if block_len == 0 || block_len > len - object.len() {
            return Err(DAMAGED);
        }
        let begin = object.len();
        match &[m, n] {
            b"ZL" => decoders::zlib(block, block_len, &mut object)?,
            b"XZ" => decoders::xz(block, block_len, &mut object)?,
            b"L4" => decoders::lz4(block.get(LZ4_SUM_LEN..).ok_or(DAMAGED)?, block_len, &mut object)?,
            b"ZS" => decoders::zstd(block, block_len, &mut object)?,
            b"CS" => decoders::deflate(block, block_len, &mut object)?,
            _ => return Err(DAMAGED),
        }
        if object.len() - begin != block_len {
            return Err(DAMAGED);
        }
        left = rest;
    }
    Ok(Cow::Owned(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::what::What;

    #[test]
    fn what_is_stored_counts_though_nothing_comes_of_it() {
        let mut budget = Budget::new(Limits { objects_len_max: 1000, ..Limits::default() });
        assert_eq!(unzip(&[0; 100], 10, &mut budget), Err(DAMAGED));
        assert!(matches!(unzip(&[0; 100], 10, &mut budget), Err(LayoutError::TooLarge { what: What::Objects, .. })));
    }
}
