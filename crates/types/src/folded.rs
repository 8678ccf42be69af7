//! CRC-32C of one long piece, by carry-less products of 512 bits.
//!
//! ```text
//! 256 bytes ──▶ × x^2048 mod P ─⊕─▶ × x^2048 mod P ─⊕─▶ … ──▶ 64 bytes ──▶ the processor's own instruction
//!                  next 256 bytes ┘     next 256 bytes ┘       whose sum is that of all before
//! ```
//!
//! After Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
//! What is left after folding is as long as a register, and has the sum of all that was folded: no reduction is needed
//! where the processor makes that sum itself.

/// With less, others are as fast.
const LEN_MIN: usize = 512;

/// Shows the sum of each chunk of `bytes`, of which the last may be shorter, as long as `visit` says that it goes on.
/// Whether it said so of all; `None`: this processor, or short chunks, need another way.
pub(crate) fn visit_chunks(bytes: &[u8], chunk_len: usize, mut visit: impl FnMut(u32) -> bool) -> Option<bool> {
    if chunk_len < LEN_MIN {
        return None;
    }
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % chunk_len);
    let went_on = whole_chunks_by_products(whole, chunk_len, &mut visit)?;
    Some(went_on && (rest.is_empty() || visit(crc32c(rest).unwrap_or_else(|| crc32c::crc32c(rest)))))
}

/// The sum of all of `bytes`. `None`: this processor, or a short piece, needs another way.
pub(crate) fn crc32c(bytes: &[u8]) -> Option<u32> {
    if bytes.len() < LEN_MIN { None } else { by_products(bytes) }
}

#[cfg(target_arch = "x86_64")]
fn is_here() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("vpclmulqdq") && has!("sse4.2")
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not each processor has")]
fn by_products(bytes: &[u8]) -> Option<u32> {
    // SAFETY: the processor has what the function is compiled for.
    is_here().then(|| unsafe { x86::crc32c(bytes) })
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not each processor has")]
fn whole_chunks_by_products(bytes: &[u8], chunk_len: usize, visit: impl FnMut(u32) -> bool) -> Option<bool> {
    // SAFETY: the processor has what the function is compiled for.
    is_here().then(|| unsafe { x86::visit_whole_chunks(bytes, chunk_len, visit) })
}

#[cfg(not(target_arch = "x86_64"))]
fn by_products(_bytes: &[u8]) -> Option<u32> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn whole_chunks_by_products(_bytes: &[u8], _chunk_len: usize, _visit: impl FnMut(u32) -> bool) -> Option<bool> {
    None
}

// Each register is loaded before it is folded.
#[cfg(target_arch = "x86_64")]
const _: () = assert!(LEN_MIN >= x86::LEN * x86::COUNT);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::polynomial::{CRC32C, power_of_x};
    use std::arch::x86_64::{
        __m512i, _mm_crc32_u8, _mm_crc32_u64, _mm512_clmulepi64_epi128, _mm512_set_epi64, _mm512_ternarylogic_epi64,
        _mm512_xor_si512,
    };

    /// Bytes of a register.
    pub(super) const LEN: usize = 64;
    /// Registers at a time: a product takes some cycles, and one begins each cycle.
    pub(super) const COUNT: usize = 4;
    const WORD_LEN: usize = size_of::<u64>();

    const BY_ONE: [i64; 2] = factors(LEN as u64);
    const BY_ALL: [i64; 2] = factors((LEN * COUNT) as u64);

    /// What the first and the second eight bytes of sixteen are multiplied by, to stand `len` bytes further on. A
    /// product of reflected numbers is one place short.
    const fn factors(len: u64) -> [i64; 2] {
        [(power_of_x(CRC32C, len + 4) as i64) << 1, (power_of_x(CRC32C, len - 4) as i64) << 1]
    }

    /// Compiled with the instructions as a whole: a chunk costs no call.
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(super) fn visit_whole_chunks(bytes: &[u8], chunk_len: usize, mut visit: impl FnMut(u32) -> bool) -> bool {
        bytes.chunks_exact(chunk_len).all(|chunk| visit(crc32c(chunk)))
    }

    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(super) fn crc32c(bytes: &[u8]) -> u32 {
        let (all, rest) = bytes.as_chunks::<{ LEN * COUNT }>();
        let mut sums = [_mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, u32::MAX.into()), zero(), zero(), zero()];
        let by_all = repeated(BY_ALL);
        for (place, each) in all.iter().enumerate() {
            for (sum, part) in sums.iter_mut().zip(each.as_chunks().0) {
                *sum =
                    if place == 0 { _mm512_xor_si512(*sum, loaded(part)) } else { folded(*sum, by_all, loaded(part)) };
            }
        }
        let by_one = repeated(BY_ONE);
        let [first, others @ ..] = sums;
        let mut sum = others.into_iter().fold(first, |sum, next| folded(sum, by_one, next));
        let (parts, rest) = rest.as_chunks();
        for part in parts {
            sum = folded(sum, by_one, loaded(part));
        }
        // Its own first bytes hold what a sum begins with.
        let sum = words(sum).into_iter().fold(0, |sum, word| _mm_crc32_u64(sum, word));
        let (whole, rest) = rest.as_chunks::<WORD_LEN>();
        let sum = whole.iter().fold(sum, |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
        !rest.iter().fold(sum as u32, |sum, byte| _mm_crc32_u8(sum, *byte))
    }

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn folded(sum: __m512i, by: __m512i, next: __m512i) -> __m512i {
        let (first, second) = (_mm512_clmulepi64_epi128::<0x00>(sum, by), _mm512_clmulepi64_epi128::<0x11>(sum, by));
        const XOR_OF_THREE: i32 = 0x96;
        _mm512_ternarylogic_epi64::<XOR_OF_THREE>(first, second, next)
    }

    #[target_feature(enable = "avx512f")]
    fn repeated([first, second]: [i64; 2]) -> __m512i {
        _mm512_set_epi64(second, first, second, first, second, first, second, first)
    }

    #[target_feature(enable = "avx512f")]
    fn zero() -> __m512i {
        repeated([0, 0])
    }

    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "bytes as a register")]
    fn loaded(part: &[u8; LEN]) -> __m512i {
        // SAFETY: both are 64 bytes of which each value is one.
        unsafe { std::mem::transmute(*part) }
    }

    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "a register as words")]
    fn words(sum: __m512i) -> [u64; LEN / WORD_LEN] {
        // SAFETY: both are 64 bytes of which each value is one.
        unsafe { std::mem::transmute(sum) }
    }
}
