//! Bytes of a file, from an offset on.

/// Never beyond the last number that a `u64` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub offset: u64,
    pub len: u64,
}

impl Span {
    pub const fn new(offset: u64, len: u64) -> Self {
        let room = u64::MAX - offset;
        Self { offset, len: if len < room { len } else { room } }
    }

    /// Empty where `end` is not behind `start`.
    pub const fn between(start: u64, end: u64) -> Self {
        Self { offset: start, len: end.saturating_sub(start) }
    }

    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// What of it lies before the end of a file.
    #[must_use]
    pub fn before(self, file_len: u64) -> Self {
        Self::between(self.offset.min(file_len), self.end().min(file_len))
    }
}

pub(crate) fn sum_len(spans: &[Span]) -> u64 {
    spans.iter().fold(0, |sum, span| sum.saturating_add(span.len))
}

/// Sorts `spans` and makes one of those that touch or overlap, or whose gap is at most `gap_max`, as long as all gaps
/// together are no longer than `gaps_len_max`.
pub(crate) fn merge(spans: &mut Vec<Span>, gap_max: u64, gaps_len_max: u64) {
    spans.retain(|span| !span.is_empty());
    spans.sort_unstable();
    let mut gaps_left = gaps_len_max;
    spans.dedup_by(|next, kept| {
        let gap = next.offset.saturating_sub(kept.end());
        if gap > gap_max.min(gaps_left) {
            return false;
        }
        gaps_left -= gap;
        *kept = Span::between(kept.offset, kept.end().max(next.end()));
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(spans: &[(u64, u64)], gap_max: u64, gaps_len_max: u64) -> Vec<(u64, u64)> {
        let mut spans: Vec<Span> = spans.iter().map(|(offset, len)| Span::new(*offset, *len)).collect();
        merge(&mut spans, gap_max, gaps_len_max);
        spans.iter().map(|span| (span.offset, span.len)).collect()
    }

    #[test]
    fn neighbours_become_one() {
        assert_eq!(merged(&[(20, 5), (0, 10), (10, 10), (30, 0)], 0, 0), [(0, 25)]);
        assert_eq!(merged(&[(0, 10), (14, 6), (25, 5)], 4, 100), [(0, 20), (25, 5)]);
        assert_eq!(merged(&[(0, 10), (14, 6), (24, 5)], 4, 4), [(0, 20), (24, 5)], "gaps are paid for once");
        assert_eq!(merged(&[(0, 10), (2, 3)], 0, 0), [(0, 10)]);
    }

    #[test]
    fn no_span_leaves_the_numbers() {
        assert_eq!(Span::new(u64::MAX - 1, 10).end(), u64::MAX);
        assert_eq!(Span::new(90, 20).before(100), Span::new(90, 10));
        assert!(Span::new(190, 20).before(100).is_empty());
    }
}
