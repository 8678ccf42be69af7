//! Connections over which long reads come from far away, shared out among all that leaves at one moment.
//!
//! ```text
//!   header 3 MB ──▶ fill         ──▶  77 connections ─┐
//!                                                     ├─▶ at most 256, all of them done after as many round trips
//!   window 7 MB ──▶ first window ──▶ 178 connections ─┘
//! ```
//!
//! Promise: each part finds its own share from lengths alone, without asking the others; together they take no more
//! than the limit, unless there are more parts than connections.

/// Bytes that are worth a connection: what a new one brings in its first round trip, nine segments behind the answer.
pub(super) const SHARE_LEN_MIN: u64 = 12 << 10;

/// What leaves at the same moment as something, and needs connections of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Bytes of all of it.
    pub(crate) len: u64,
    /// Of how many parts, none of them empty.
    pub(crate) count: u64,
}

impl Beside {
    /// As the parts of these lengths see each other, in their order.
    pub(crate) fn each_of(lens: &[u64]) -> Vec<Self> {
        let all_len = lens.iter().fold(0u64, |sum, len| sum.saturating_add(*len));
        let count = lens.iter().filter(|len| **len > 0).count() as u64;
        let others = |len: &u64| Self { len: all_len - *len, count: count - u64::from(*len > 0) };
        lens.iter().map(others).collect()
    }
}

/// Connections that are left for `len` bytes: one, and of what is left of `limit` when each part has one, the share of
/// their length.
pub(super) fn share_of(len: u64, beside: Beside, limit: u64) -> u64 {
    let left = limit.saturating_sub(beside.count.saturating_add(1));
    let (own, all) = (u128::from(len), u128::from(len) + u128::from(beside.len));
    // No more than `left`, which is a u64.
    1 + (u128::from(left) * own).checked_div(all).unwrap_or_default() as u64
}

/// Connections for `len` bytes: their share, but no more than they are worth.
pub(super) fn share_count_of(len: u64, beside: Beside, limit: u64) -> u64 {
    len.div_ceil(SHARE_LEN_MIN).min(share_of(len, beside, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::random::{Random, Seeded};

    fn shares(lens: &[u64], limit: u64) -> Vec<u64> {
        let beside = Beside::each_of(lens);
        lens.iter().zip(beside).map(|(len, beside)| share_count_of(*len, beside, limit)).collect()
    }

    /// The header of a tree, and the columns that earlier runs have read: the longer one must not come by one
    /// connection.
    #[test]
    fn a_header_and_a_window_share_by_their_lengths() {
        assert_eq!(shares(&[3_000_000, 6_900_000], 256), [77, 178]);
        assert_eq!(shares(&[6_900_000], 256), [256]);
        assert_eq!(shares(&[65_536, 6_900_000], 256), [3, 252]);
        assert_eq!(shares(&[0, 6_900_000], 256), [0, 256]);
    }

    #[test]
    fn what_is_short_takes_what_it_is_worth() {
        assert_eq!(shares(&[1, SHARE_LEN_MIN, SHARE_LEN_MIN + 1], 256), [1, 1, 2]);
        assert_eq!(shares(&[10 * SHARE_LEN_MIN; 2], 256), [10, 10]);
    }

    #[test]
    fn more_parts_than_connections_have_one_each() {
        assert_eq!(shares(&[1 << 20; 10], 8), [1; 10]);
    }

    #[test]
    fn shares_keep_to_the_limit_and_to_lengths() {
        let mut random = Seeded(7);
        for _ in 0..2000 {
            let limit = 9 + random.below(300) as u64;
            let part_count = 1 + random.below(8);
            let mut len = |_| {
                let bits = random.below(40);
                random.below(1 << bits) as u64
            };
            let lens: Vec<u64> = (0..part_count).map(&mut len).collect();
            let counts = shares(&lens, limit);
            assert!(counts.iter().sum::<u64>() <= limit, "{counts:?} of {limit} for {lens:?}");
            let mut pairs: Vec<(u64, u64)> = lens.iter().copied().zip(counts).collect();
            pairs.sort_unstable();
            assert!(pairs.is_sorted_by_key(|(_, count)| *count), "{pairs:?}: the longer has fewer");
            assert!(pairs.iter().all(|(len, count)| (*count > 0) == (*len > 0)), "{pairs:?}: nothing for something");
        }
    }
}
