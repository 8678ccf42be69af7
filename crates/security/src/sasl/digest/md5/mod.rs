//! MD5's compression (RFC 1321, 3.4) of one block of each of several messages side by side.
//!
//! Each step waits for the one before, so a message alone leaves most of a core idle. Messages do not wait for each
//! other: each is a lane of vector registers. ADR 21 has what a byte costs, and which libraries were weighed.

#[cfg(target_arch = "x86_64")]
mod eight;
mod rounds;

pub(super) use rounds::{BLOCK_LEN, Block, Compress, START, State};
use rounds::{Lanes, States, Word, mixed};

/// Goes on by one block of each message, with the vectors that each processor of this kind has.
pub(super) fn compress<const N: usize>(states: &mut States<N>, blocks: [&Block; N]) {
    let words = std::array::from_fn(|w| blocks.map(|block| u32::from_le_bytes(block.as_chunks().0[w])));
    *states = mixed(*states, &words);
}

/// [`compress`] by vectors of eight words. `None`: this processor has none.
pub(super) fn eight_lanes() -> Option<Compress<8>> {
    #[cfg(target_arch = "x86_64")]
    return eight::lanes();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

impl<const N: usize> Lanes for Word<N> {
    #[inline(always)]
    fn of_each(word: u32) -> Self {
        [word; N]
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane].wrapping_add(other[lane]))
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        self.map(|word| word.rotate_left(by))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] & other[lane])
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] & !other[lane])
    }

    #[inline(always)]
    fn or_not(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] | !other[lane])
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] ^ other[lane])
    }
}
