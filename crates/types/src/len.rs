//! Sums of lengths. Some of the lengths are what a client claims, so no sum of them may overflow.

/// All of them together; 2⁶⁴−1 if that is too small for them.
pub fn total(lens: impl IntoIterator<Item = u64>) -> u64 {
    lens.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_ends_at_the_largest_number() {
        assert_eq!(total([1, 2, 3]), 6);
        assert_eq!(total([u64::MAX - 1, 2, 3]), u64::MAX);
    }
}
