//! Triple DES with two keys (FIPS 46-3), its blocks chained: the privacy that stock clients agree on unless they are
//! told of AES.
//!
//! ```text
//!   block ─▶ initial permutation ─▶ 3 × 16 rounds ─▶ its inverse ─▶ block      what lies between two DES cancels out
//!   round:  left ^= S(right ^ key), eight tables of six bits each, with what permutes their output in them
//! ```
//!
//! A block that is sealed waits for the one before; of those that are opened, several go through the rounds side by
//! side. ADR 21 has what it costs, and why no library does it.

pub(super) const BLOCK_LEN: usize = 8;
const ROUNDS: usize = 16;
/// Blocks side by side: more do not fit the registers.
const LANES: usize = 4;
/// Both halves are kept rotated by so much, so that the six bits of each second table lie at the end of a byte.
const ROTATION: u32 = 29;

/// One direction, at the end that sends.
pub(super) struct Encryptor(Chain);

/// One direction, at the end that receives.
pub(super) struct Decryptor(Chain);

struct Chain {
    keys: Keys,
    /// The sealed form of the block before.
    last: u64,
}

/// Blocks that are chained, at one end or the other.
pub(super) trait TripleDes {
    fn new(key: [u8; 16], iv: [u8; BLOCK_LEN]) -> Self;
    /// Whole blocks, in place.
    fn apply(&mut self, bytes: &mut [u8]);
}

impl TripleDes for Encryptor {
    fn new(key: [u8; 16], iv: [u8; BLOCK_LEN]) -> Self {
        Self(Chain { keys: Keys::new(key), last: u64::from_be_bytes(iv) })
    }

    fn apply(&mut self, bytes: &mut [u8]) {
        let Self(Chain { keys, last }) = self;
        for block in bytes.as_chunks_mut().0 {
            [*last] = keys.through([u64::from_be_bytes(*block) ^ *last]);
            *block = last.to_be_bytes();
        }
    }
}

impl TripleDes for Decryptor {
    fn new(key: [u8; 16], iv: [u8; BLOCK_LEN]) -> Self {
        let Keys(mut keys) = Keys::new(key);
        keys.reverse();
        Self(Chain { keys: Keys(keys), last: u64::from_be_bytes(iv) })
    }

    fn apply(&mut self, bytes: &mut [u8]) {
        let (many, rest) = bytes.as_chunks_mut::<BLOCK_LEN>().0.as_chunks_mut::<LANES>();
        many.iter_mut().for_each(|blocks| self.open(blocks));
        rest.iter_mut().for_each(|block| self.open(std::array::from_mut(block)));
    }
}

impl Decryptor {
    fn open<const N: usize>(&mut self, blocks: &mut [[u8; BLOCK_LEN]; N]) {
        let Self(Chain { keys, last }) = self;
        let sealed = blocks.map(u64::from_be_bytes);
        for ((block, sealed), opened) in blocks.iter_mut().zip(sealed).zip(keys.through(sealed)) {
            *block = (opened ^ *last).to_be_bytes();
            *last = sealed;
        }
    }
}

/// Of each round: the six bits of the tables 1, 3, 5 and 7, a byte each, and those of the others.
struct Keys([[u32; 2]; 3 * ROUNDS]);

impl Keys {
    /// To encrypt by the first key, decrypt by the second, and encrypt by the first; backwards it is the inverse.
    fn new(key: [u8; 16]) -> Self {
        let [first, second] = [0, 8].map(|at| round_keys(u64::from_be_bytes(key[at..at + 8].try_into().expect("8"))));
        let mut keys = [[0; 2]; 3 * ROUNDS];
        let all = first.iter().chain(second.iter().rev()).chain(&first);
        keys.iter_mut().zip(all).for_each(|(key, of_round)| *key = *of_round);
        Self(keys)
    }

    #[inline(always)]
    fn through<const N: usize>(&self, blocks: [u64; N]) -> [u64; N] {
        let mut halves = blocks.map(permuted);
        for of_one_des in self.0.as_chunks::<ROUNDS>().0 {
            for [first, second] in of_one_des.as_chunks::<2>().0 {
                for [left, right] in &mut halves {
                    *left ^= substituted(*right, first);
                }
                for [left, right] in &mut halves {
                    *right ^= substituted(*left, second);
                }
            }
            halves.iter_mut().for_each(|halves| halves.reverse());
        }
        halves.map(permuted_back)
    }
}

/// The tables of six bits for a half.
#[inline(always)]
fn substituted(half: u32, key: &[u32; 2]) -> u32 {
    let [odd, even] = [half ^ key[0], half.rotate_left(4) ^ key[1]].map(u32::to_be_bytes);
    let of = |table: usize, bits: u8| TABLES[table][usize::from(bits & 0x3f)];
    (of(0, odd[0]) ^ of(1, even[0]) ^ of(2, odd[1]) ^ of(3, even[1]))
        ^ (of(4, odd[2]) ^ of(5, even[2]) ^ of(6, odd[3]) ^ of(7, even[3]))
}

/// Exchanges the bits of `mask` in `b` with those `shift` further up in `a`.
#[inline(always)]
fn exchange(a: &mut u32, b: &mut u32, shift: u32, mask: u32) {
    let differ = ((*a >> shift) ^ *b) & mask;
    *b ^= differ;
    *a ^= differ << shift;
}

/// The initial permutation, as five exchanges: it transposes the block as a square of bits.
#[inline(always)]
fn permuted(block: u64) -> [u32; 2] {
    let [mut left, mut right] = [(block >> 32) as u32, block as u32];
    exchange(&mut left, &mut right, 4, 0x0f0f_0f0f);
    exchange(&mut left, &mut right, 16, 0x0000_ffff);
    exchange(&mut right, &mut left, 2, 0x3333_3333);
    exchange(&mut right, &mut left, 8, 0x00ff_00ff);
    exchange(&mut left, &mut right, 1, 0x5555_5555);
    [left, right].map(|half| half.rotate_left(ROTATION))
}

#[inline(always)]
fn permuted_back(halves: [u32; 2]) -> u64 {
    let [mut left, mut right] = halves.map(|half| half.rotate_right(ROTATION));
    exchange(&mut left, &mut right, 1, 0x5555_5555);
    exchange(&mut right, &mut left, 8, 0x00ff_00ff);
    exchange(&mut right, &mut left, 2, 0x3333_3333);
    exchange(&mut left, &mut right, 16, 0x0000_ffff);
    exchange(&mut left, &mut right, 4, 0x0f0f_0f0f);
    u64::from(left) << 32 | u64::from(right)
}

/// Bit `places[i]` of `bits`, of which there are `len`, becomes bit `i`. The highest bit is the first, with number 1.
const fn picked(bits: u64, len: u32, places: &[u8]) -> u64 {
    let (mut picked, mut i) = (0, 0);
    while i < places.len() {
        picked = picked << 1 | bits >> (len - places[i] as u32) & 1;
        i += 1;
    }
    picked
}

fn round_keys(key: u64) -> [[u32; 2]; ROUNDS] {
    const HALF_LEN: u32 = 28;
    const HALF: u64 = (1 << HALF_LEN) - 1;
    let chosen = picked(key, 64, &CHOICE_1);
    let [mut upper, mut lower] = [chosen >> HALF_LEN, chosen & HALF];
    SHIFTS.map(|shift| {
        for half in [&mut upper, &mut lower] {
            *half = (*half << shift | *half >> (HALF_LEN - shift)) & HALF;
        }
        let key = picked(upper << HALF_LEN | lower, 2 * HALF_LEN, &CHOICE_2);
        let six_bits = |table: u32| (key >> (42 - 6 * table)) as u8 & 0x3f;
        [0, 1].map(|first| u32::from_be_bytes([0, 2, 4, 6].map(|table| six_bits(first + table))))
    })
}

/// What each table makes of six bits: its four, in their place, permuted and rotated.
static TABLES: [[u32; 64]; 8] = tables();

const fn tables() -> [[u32; 64]; 8] {
    let mut tables = [[0; 64]; 8];
    let mut table = 0;
    while table < 8 {
        let mut bits = 0;
        while bits < 64 {
            // The outer two are the row, the inner four the column.
            let row = (bits >> 4 & 2) | (bits & 1);
            let four = BOXES[table][16 * row + (bits >> 1 & 15)] as u64;
            tables[table][bits] = (picked(four << (28 - 4 * table), 32, &OUTPUT) as u32).rotate_left(ROTATION);
            bits += 1;
        }
        table += 1;
    }
    tables
}

/// FIPS 46-3: P.
#[rustfmt::skip]
const OUTPUT: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];
/// PC-1.
#[rustfmt::skip]
const CHOICE_1: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];
/// PC-2.
#[rustfmt::skip]
const CHOICE_2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
/// By how much the halves of a key rotate before each round.
const SHIFTS: [u32; ROUNDS] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
/// S1 to S8, four rows of sixteen each.
#[rustfmt::skip]
const BOXES: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8,
        4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5,
        0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1,
        13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9,
        10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6,
        4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8,
        9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6,
        1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2,
        7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;
    use cbc::cipher::{BlockModeEncrypt, KeyIvInit};
    use des::TdesEde2;
    use proptest::prelude::*;

    proptest! {
        /// In pieces, as messages come, whatever their lengths.
        #[test]
        fn as_the_library(key: [u8; 16], iv: [u8; BLOCK_LEN], blocks in proptest::collection::vec(
            any::<[u8; BLOCK_LEN]>(), 0..50), cut in 0_usize..50) {
            let mut theirs = cbc::Encryptor::<TdesEde2>::new(&key.into(), &iv.into());
            let mut sealed = blocks.clone();
            sealed.iter_mut().for_each(|block| theirs.encrypt_block(block.into()));
            let mut ours = blocks.clone();
            let (begin, end) = ours.split_at_mut(cut.min(blocks.len()));
            let mut encryptor = <Encryptor as TripleDes>::new(key, iv);
            [&mut *begin, &mut *end].into_iter().for_each(|piece| encryptor.apply(piece.as_flattened_mut()));
            prop_assert_eq!(&ours, &sealed);
            let (begin, end) = ours.split_at_mut(cut.min(blocks.len()));
            let mut decryptor = <Decryptor as TripleDes>::new(key, iv);
            [begin, end].into_iter().for_each(|piece| decryptor.apply(piece.as_flattened_mut()));
            prop_assert_eq!(ours, blocks);
        }
    }
}
