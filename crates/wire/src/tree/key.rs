//! Where a block stands in a tree, and how words are mixed.

use types::BlockId;

/// The finalizer of SplitMix64: differences of neighbours do not cancel out.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

pub(super) fn hash(seed: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(seed, |hash, word| mix(hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Where a block stands in a tree.
pub fn key(block: BlockId) -> u64 {
    mix(block.0 ^ 0x9e37_79b9_7f4a_7c15)
}
