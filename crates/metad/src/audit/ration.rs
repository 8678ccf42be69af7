//! How many lines of the log those may cause who have proven nothing, or whose proof was revoked.

use std::time::Duration;

/// At once, after a time without any.
const LINE_COUNT_MAX: u32 = 20;
/// Then one in so long: 28,800 lines a day, of some 400 bytes, which take seven weeks to push others out of the 640 MB
/// that files of the log have by default. A guess.
const LINE_EACH: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Ration {
    left: u32,
    /// When the last line was added to what is left.
    added: Duration,
    passed_over: u64,
}

impl Default for Ration {
    fn default() -> Self {
        Self { left: LINE_COUNT_MAX, added: Duration::ZERO, passed_over: 0 }
    }
}

impl Ration {
    /// Takes a line. Answers how many were not to be had since the last one; `None`: neither is this one.
    pub(super) fn take(&mut self, now: Duration) -> Option<u64> {
        let due = now.saturating_sub(self.added).as_millis() / LINE_EACH.as_millis();
        let missing = LINE_COUNT_MAX - self.left;
        match u32::try_from(due).ok().filter(|due| *due < missing) {
            Some(due) => {
                self.left += due;
                self.added += LINE_EACH * due;
            }
            None => {
                self.left = LINE_COUNT_MAX;
                self.added = now;
            }
        }
        assert!(self.left <= LINE_COUNT_MAX, "{self:?}");
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.passed_over))
            }
            None => {
                self.passed_over += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knocks_all_day_gets_a_line_each_three_seconds() {
        let mut ration = Ration::default();
        let begin = Duration::from_secs(1000);
        let taken: Vec<u64> = (0..10_000).filter_map(|ms| ration.take(begin + Duration::from_millis(ms))).collect();
        assert_eq!(taken.len(), 20 + 3, "{taken:?}");
        assert_eq!(taken[..20], [0; 20]);
        assert_eq!(taken[20..], [2980, 2999, 2999], "each says how many have none");
        // After a while without, as many as at the beginning; the first says what was left out before.
        let later: Vec<u64> = (0..100).filter_map(|ms| ration.take(begin * 2 + Duration::from_millis(ms))).collect();
        assert_eq!((later.len(), later[0]), (20, 999));
    }
}
