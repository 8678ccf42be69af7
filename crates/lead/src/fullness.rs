//! Fullness of a disk or a node, in parts.

/// Fullness is counted in parts of this.
pub const FULL_PARTS: u64 = 1_000_000_000;

/// Of [`FULL_PARTS`]. More than all of them: of a whole that is smaller than what is used.
pub(crate) fn parts(used: u64, whole: u64) -> u64 {
    let parts = u128::from(used) * u128::from(FULL_PARTS) / u128::from(whole.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}
