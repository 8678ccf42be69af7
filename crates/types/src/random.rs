//! Chance as an argument: pure code draws from what it is given, so a test can replay every draw.

pub trait Random {
    fn next_u64(&mut self) -> u64;

    /// A number below `end`, which must not be zero. The bias for small `end` is far below what placement can notice.
    fn below(&mut self, end: usize) -> usize {
        assert!(end > 0);
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for placement and tests, not for secrets.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Random for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
