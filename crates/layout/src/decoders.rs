//! What formats compress their metadata with. Each decoder takes a block at hand and appends what is in it, which has a
//! bound: a block that holds more is damaged.

use crate::error::{LayoutError, Result};
use std::io::Read;

/// What a decoder may take beside its output: a block has at most 16 MiB, so no window needs to be longer. xz counts
/// some more for itself, and its highest level has a dictionary of 64 MiB, whatever the block's length.
const WINDOW_LEN_MAX: u64 = 16 << 20;
const XZ_MEMORY_KIB_MAX: u32 = 66 << 10;
/// No byte of LZ4 makes more.
const LZ4_GAIN_MAX: usize = 255;

/// What a stored byte takes of the bound on time: a stranger's may be tables of codes without any output. 16 MiB of
/// such took 3.4 s of a core as deflate and 2.4 s as xz. A guess between those and headers in use, of 3 MB.
pub(crate) const STORED_COST: u64 = 8;

pub(crate) const DAMAGED: LayoutError = LayoutError::Damaged("an object cannot be decompressed");

pub(crate) fn zlib(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    let plain = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(block, len_max).map_err(|_| DAMAGED)?;
    out.extend_from_slice(&plain);
    Ok(())
}

pub(crate) fn deflate(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    let plain = miniz_oxide::inflate::decompress_to_vec_with_limit(block, len_max).map_err(|_| DAMAGED)?;
    out.extend_from_slice(&plain);
    Ok(())
}

pub(crate) fn lz4(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    // A short block must not cost a long bound.
    let len_max = len_max.min(block.len().saturating_mul(LZ4_GAIN_MAX));
    let begin = out.len();
    out.resize(begin + len_max, 0);
    let written = lz4_flex::block::decompress_into(block, out.get_mut(begin..).unwrap_or_default());
    out.truncate(begin + written.map_err(|_| DAMAGED)?);
    Ok(())
}

pub(crate) fn xz(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    read_up_to(lzma_rust2::XzReader::new_mem_limit(block, false, XZ_MEMORY_KIB_MAX), len_max, out)
}

pub(crate) fn zstd(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(block, WINDOW_LEN_MAX);
    read_up_to(decoder.map_err(|_| DAMAGED)?, len_max, out)
}

fn read_up_to(reader: impl Read, len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    let read = reader.take(len_max as u64 + 1).read_to_end(out).map_err(|_| DAMAGED)?;
    if read <= len_max { Ok(()) } else { Err(DAMAGED) }
}
