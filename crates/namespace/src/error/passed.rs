//! A quota that a change would pass.

/// The limit, and what there would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    Names { limit: u64, count: u64 },
    Space { limit: u64, space: u128 },
    DiskSpace { limit: u64, space: u128 },
}
