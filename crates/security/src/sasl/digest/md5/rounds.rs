//! The sixty-four steps, over whatever has a word of each message.

pub(crate) const BLOCK_LEN: usize = 64;
pub(super) const WORDS: usize = BLOCK_LEN / size_of::<u32>();

pub(crate) type Block = [u8; BLOCK_LEN];
/// Of one message.
pub(crate) type State = [u32; 4];
/// The same word of each lane.
pub(super) type Word<const N: usize> = [u32; N];
/// Of `N` messages.
pub(crate) type States<const N: usize> = [Word<N>; 4];
/// Goes on by one block of each message.
pub(crate) type Compress<const N: usize> = fn(&mut States<N>, [&Block; N]);

pub(crate) const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// By how much each step rotates, in turn, in each round.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
/// Which word of the block each step takes, in each round.
const PLACES: [[usize; WORDS]; 4] = [places(1, 0), places(5, 1), places(3, 5), places(7, 0)];
/// The integer part of 2³² × |sin(i)|, i from 1.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

const fn places(step: usize, first: usize) -> [usize; WORDS] {
    let mut places = [first; WORDS];
    let mut i = 1;
    while i < WORDS {
        places[i] = (places[i - 1] + step) % WORDS;
        i += 1;
    }
    places
}

/// The same word of several messages, or of one.
pub(super) trait Lanes: Copy {
    fn of_each(word: u32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn rotate_left(self, by: u32) -> Self;
    fn and(self, other: Self) -> Self;
    fn and_not(self, other: Self) -> Self;
    fn or_not(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

/// The four rounds over the sixteen words of each block.
#[inline(always)]
pub(super) fn mixed<L: Lanes>(state: [L; 4], words: &[L; WORDS]) -> [L; 4] {
    let mut mixed = round::<L, 0>(state, words);
    mixed = round::<L, 1>(mixed, words);
    mixed = round::<L, 2>(mixed, words);
    mixed = round::<L, 3>(mixed, words);
    std::array::from_fn(|i| state[i].plus(mixed[i]))
}

#[inline(always)]
fn round<L: Lanes, const ROUND: usize>([mut a, mut b, mut c, mut d]: [L; 4], words: &[L; WORDS]) -> [L; 4] {
    // Constants, as a rotation by anything else takes three times as long.
    let [first, second, third, fourth] = const { ROTATIONS[ROUND] };
    for i in (0..WORDS).step_by(4) {
        a = step::<L, ROUND>(i, first, a, [b, c, d], words);
        d = step::<L, ROUND>(i + 1, second, d, [a, b, c], words);
        c = step::<L, ROUND>(i + 2, third, c, [d, a, b], words);
        b = step::<L, ROUND>(i + 3, fourth, b, [c, d, a], words);
    }
    [a, b, c, d]
}

/// `b` is the word that was made last: as little as can be waits for it.
#[inline(always)]
fn step<L: Lanes, const ROUND: usize>(i: usize, rotation: u32, a: L, [b, c, d]: [L; 3], words: &[L; WORDS]) -> L {
    let sum = a.plus(words[PLACES[ROUND][i]].plus(L::of_each(SINES[WORDS * ROUND + i])));
    let sum = match ROUND {
        0 => sum.plus(d.xor(b.and(c.xor(d)))),
        1 => sum.plus(c.and_not(d)).plus(b.and(d)),
        2 => sum.plus(b.xor(c.xor(d))),
        _ => sum.plus(c.xor(b.or_not(d))),
    };
    sum.rotate_left(rotation).plus(b)
}
