//! Eight lanes as vectors of AVX2, by intrinsics: of arrays of words the compiler makes no vectors.
#![expect(unsafe_code, reason = "instructions that not each processor has")]

use super::rounds::{Block, Compress, Lanes, States, WORDS, Word, mixed};
use std::arch::x86_64::*;

pub(super) fn lanes() -> Option<Compress<8>> {
    std::arch::is_x86_feature_detected!("avx2").then_some(|states, blocks| {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { by_vectors(states, blocks) }
    })
}

#[target_feature(enable = "avx2")]
fn by_vectors(states: &mut States<8>, blocks: [&Block; 8]) {
    let half = |half: usize| transposed(blocks.map(|block| Vector::of_bytes(block.as_chunks().0[half])));
    let (first, second) = (half(0), half(1));
    let words: [Vector; WORDS] = std::array::from_fn(|w| if w < 8 { first[w] } else { second[w - 8] });
    *states = mixed(states.map(Vector::of_words), &words).map(Vector::words);
}

/// From a row for each lane to a vector for each word.
#[target_feature(enable = "avx2")]
fn transposed(rows: [Vector; 8]) -> [Vector; 8] {
    let rows = rows.map(|Vector(row)| row);
    // Of each pair of rows words 0, 1 | 4, 5, and 2, 3 | 6, 7; then of each four rows word 0 | 4, 1 | 5, 2 | 6, 3 | 7.
    let low = |i: usize| _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
    let high = |i: usize| _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    let fours = |i: usize| {
        let (low, high) = ([low(i), low(i + 2)], [high(i), high(i + 2)]);
        [
            _mm256_unpacklo_epi64(low[0], low[1]),
            _mm256_unpackhi_epi64(low[0], low[1]),
            _mm256_unpacklo_epi64(high[0], high[1]),
            _mm256_unpackhi_epi64(high[0], high[1]),
        ]
    };
    let (upper, lower) = (fours(0), fours(4));
    std::array::from_fn(|w| {
        Vector(match w {
            0..4 => _mm256_permute2x128_si256::<0x20>(upper[w], lower[w]),
            _ => _mm256_permute2x128_si256::<0x31>(upper[w - 4], lower[w - 4]),
        })
    })
}

/// Made in [`by_vectors`] alone, so whatever has one runs on a processor with AVX2.
#[derive(Clone, Copy)]
struct Vector(__m256i);

impl Vector {
    #[inline(always)]
    fn of_bytes(bytes: [u8; 32]) -> Self {
        // SAFETY: both are 32 bytes, of any value.
        Self(unsafe { std::mem::transmute::<[u8; 32], __m256i>(bytes) })
    }

    #[inline(always)]
    fn of_words(words: Word<8>) -> Self {
        // SAFETY: both are 32 bytes, of any value.
        Self(unsafe { std::mem::transmute::<Word<8>, __m256i>(words) })
    }

    #[inline(always)]
    fn words(self) -> Word<8> {
        // SAFETY: both are 32 bytes, of any value.
        unsafe { std::mem::transmute::<__m256i, Word<8>>(self.0) }
    }
}

impl Lanes for Vector {
    #[inline(always)]
    fn of_each(word: u32) -> Self {
        Self::of_words([word; 8])
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: see the type; so in all that follow.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        // SAFETY: as above.
        Self(unsafe {
            let [left, right] = [by, 32 - by].map(|by| _mm_set_epi64x(0, by.into()));
            _mm256_or_si256(_mm256_sll_epi32(self.0, left), _mm256_srl_epi32(self.0, right))
        })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_andnot_si256(other.0, self.0) })
    }

    #[inline(always)]
    fn or_not(self, other: Self) -> Self {
        let ones = Self::of_each(u32::MAX);
        // SAFETY: as above.
        Self(unsafe { _mm256_or_si256(self.0, _mm256_xor_si256(other.0, ones.0)) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
}
