//! CRC-32C of several chunks at a time, by the processor's own instruction.
//!
//! ```text
//! chunk 0  ██████░░░░   one step of each chunk in turn: a step takes three cycles until its sum can be used, and one
//! chunk 1  ██████░░░░   begins each cycle. Within one chunk the steps wait for each other.
//! chunk 2  ██████░░░░
//! chunk 3  ██████░░░░
//! ```
//!
//! For processors without products of 512 bits (`folded`), and for chunks that are shorter than it takes. Libraries'
//! code for one long piece cuts it into such parts, too, and has to put their sums together at its end: of 512 bytes
//! that takes as long as all the rest.

/// Chunks at a time: one more than a step takes cycles.
pub(crate) const COUNT: usize = 4;

/// The sums of [`COUNT`] chunks of one length, which lie one behind the other. `None`: this processor, or chunks of
/// this length, need another way.
pub(crate) fn crc32c(bytes: &[u8]) -> Option<[u32; COUNT]> {
    let chunk_len = bytes.len() / COUNT;
    if !chunk_len.is_multiple_of(WORD_LEN) || !bytes.len().is_multiple_of(COUNT) {
        return None;
    }
    by_instruction(bytes, chunk_len)
}

const WORD_LEN: usize = size_of::<u64>();

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not each processor has")]
fn by_instruction(bytes: &[u8], chunk_len: usize) -> Option<[u32; COUNT]> {
    #[target_feature(enable = "sse4.2")]
    fn all(bytes: &[u8], chunk_len: usize) -> [u32; COUNT] {
        steps(bytes, chunk_len, |sum, word| std::arch::x86_64::_mm_crc32_u64(sum.into(), word) as u32)
    }
    // SAFETY: the processor has what the function is compiled for.
    std::arch::is_x86_feature_detected!("sse4.2").then(|| unsafe { all(bytes, chunk_len) })
}

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "instructions that not each processor has")]
fn by_instruction(bytes: &[u8], chunk_len: usize) -> Option<[u32; COUNT]> {
    #[target_feature(enable = "crc")]
    fn all(bytes: &[u8], chunk_len: usize) -> [u32; COUNT] {
        steps(bytes, chunk_len, |sum, word| std::arch::aarch64::__crc32cd(sum, word))
    }
    // SAFETY: the processor has what the function is compiled for.
    std::arch::is_aarch64_feature_detected!("crc").then(|| unsafe { all(bytes, chunk_len) })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn by_instruction(_bytes: &[u8], _chunk_len: usize) -> Option<[u32; COUNT]> {
    None
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn steps(bytes: &[u8], chunk_len: usize, step: impl Fn(u32, u64) -> u32) -> [u32; COUNT] {
    let words = |chunk: usize| bytes[chunk * chunk_len..][..chunk_len].as_chunks::<WORD_LEN>().0.iter();
    let mut sums = [u32::MAX; COUNT];
    for (((a, b), c), d) in words(0).zip(words(1)).zip(words(2)).zip(words(3)) {
        for (sum, word) in sums.iter_mut().zip([a, b, c, d]) {
            *sum = step(*sum, u64::from_le_bytes(*word));
        }
    }
    sums.map(|sum| !sum)
}
