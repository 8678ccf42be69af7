//! Objects as ROOT stores them: as they are, or as a row of blocks, each compressed by itself.
//!
//! ```text
//! ┌ method ─ 2 letters ┬ version ─ u8 ┬ stored_len ─ u24 ┬ len ─ u24 ┬ bytes …      lengths little-endian
//! └ "ZL" zlib · "XZ" xz · "L4" LZ4, behind a checksum of 8 bytes · "ZS" zstd · "CS" plain deflate, until 2005
//! ```
//!
//! LZ4's checksum is not verified: what a wrong layout costs is bytes that nobody asked for.

use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use std::borrow::Cow;
use std::io::Read;

const HEAD_LEN: usize = 9;
const LZ4_SUM_LEN: usize = 8;
/// What a decoder may take beside its output: a block has at most 16 MiB, so no window needs to be longer. xz counts
/// some more for itself, and its highest level has a dictionary of 64 MiB, whatever the block's length.
const WINDOW_LEN_MAX: u64 = 16 << 20;
const XZ_MEMORY_KIB_MAX: u32 = 66 << 10;

/// Blocks are full but for the last, so an object of n MiB has few. Each may take a window, and time for that.
const BLOCK_LEN_USUAL: usize = 1 << 20;
const BLOCK_COUNT_LEAST: usize = 16;

/// What a stored byte takes of the bound on time: a stranger's may be tables of codes without any output. 16 MiB of
/// such took 3.4 s of a core as deflate and 2.4 s as xz. A guess between those and headers in use, of 3 MB.
const STORED_COST: u64 = 8;

const DAMAGED: LayoutError = LayoutError::Damaged("an object cannot be decompressed");

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
        match &[m, n] {
            b"ZL" => zlib(block, block_len, &mut object)?,
            b"XZ" => xz(block, block_len, &mut object)?,
            b"L4" => lz4(block, block_len, &mut object)?,
            b"ZS" => zstd(block, block_len, &mut object)?,
            b"CS" => deflate(block, block_len, &mut object)?,
            _ => return Err(DAMAGED),
        }
        left = rest;
    }
    Ok(Cow::Owned(object))
}

fn zlib(block: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    append(&miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(block, len).map_err(|_| DAMAGED)?, len, object)
}

fn deflate(block: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    append(&miniz_oxide::inflate::decompress_to_vec_with_limit(block, len).map_err(|_| DAMAGED)?, len, object)
}

fn append(plain: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    if plain.len() != len {
        return Err(DAMAGED);
    }
    object.extend_from_slice(plain);
    Ok(())
}

fn lz4(block: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    let block = block.get(LZ4_SUM_LEN..).ok_or(DAMAGED)?;
    // No byte of LZ4 makes more than 255.
    if len / 255 > block.len() {
        return Err(DAMAGED);
    }
    let begin = object.len();
    object.resize(begin + len, 0);
    let written = lz4_flex::block::decompress_into(block, object.get_mut(begin..).unwrap_or_default());
    if written.is_ok_and(|written| written == len) { Ok(()) } else { Err(DAMAGED) }
}

fn xz(block: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    read_exactly(lzma_rust2::XzReader::new_mem_limit(block, false, XZ_MEMORY_KIB_MAX), len, object)
}

fn zstd(block: &[u8], len: usize, object: &mut Vec<u8>) -> Result<()> {
    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(block, WINDOW_LEN_MAX);
    read_exactly(decoder.map_err(|_| DAMAGED)?, len, object)
}

fn read_exactly(reader: impl Read, len: usize, object: &mut Vec<u8>) -> Result<()> {
    let read = reader.take(len as u64).read_to_end(object).map_err(|_| DAMAGED)?;
    if read == len { Ok(()) } else { Err(DAMAGED) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Limits, What};

    #[test]
    fn what_is_stored_counts_though_nothing_comes_of_it() {
        let mut budget = Budget::new(Limits { objects_len_max: 1000, ..Limits::default() });
        assert_eq!(unzip(&[0; 100], 10, &mut budget), Err(DAMAGED));
        assert!(matches!(unzip(&[0; 100], 10, &mut budget), Err(LayoutError::TooLarge { what: What::Objects, .. })));
    }
}
