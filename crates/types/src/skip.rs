//! Numbers that a store which was restored from a backup passes over, as others have them already.
//!
//! ```text
//! backup ──▶ lost store, until it was lost      ids behind the backup's counter
//!    └─────▶ restored, and given up again       ids behind the clock of the first restore
//!    └─────▶ restored once more                 ids behind the clock of the second
//! ```
//!
//! Promise: a restored counter is behind all that any store of the same origin has given out until then: the lost one,
//! and each that was restored before, from this backup or another one. That holds as long as none gives out more than
//! [`Skip::count`] in [`Skip::each`] on average since [`EPOCH`]: then what a store has given out is always below the
//! clock's number, and a restored store begins there. And the clock may not go back: if the second restore of a
//! backup runs by a clock behind that of the first one, it begins below the first one's numbers. Numbers stay within
//! their width.

use crate::time::Millis;
use std::time::Duration;

/// The clock's numbers are counted from there: 2025, before the first store.
const EPOCH: Millis = Millis(1_735_689_600_000);
/// Where a counter is ahead of the clock, as a store was restored by a clock that was far ahead, it skips by this part
/// of the clock's number. So two restores of one backup differ there too.
const PART: u64 = 64;

/// How one kind of numbers is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// At most so many are given out...
    pub count: u64,
    /// ... in this time, on average over years.
    pub each: Duration,
    /// So many at least are passed over, whatever the clock says.
    pub least: u64,
    /// The largest number that a counter may have after a restore: there is room behind it.
    pub max: u64,
}

impl Skip {
    /// For a backup's counter, which gave out `last` at last, and is restored at `now`. `None`: there are no numbers
    /// left for it.
    pub fn behind(self, last: u64, now: Millis) -> Option<u64> {
        assert!(!self.each.is_zero() && self.count > 0 && self.least > 0, "{self:?} passes over nothing");
        let clock = now.since(EPOCH).as_millis() * u128::from(self.count) / self.each.as_millis();
        let clock = u64::try_from(clock).ok()?;
        let least = last.checked_add(self.least)?;
        let next = if least <= clock { clock } else { least.checked_add(clock / PART)? };
        assert!(next > last, "{next} is not behind {last}");
        Some(next).filter(|next| *next <= self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of which a busy store gives out a thousand a second.
    const SKIP: Skip = Skip { count: 1000, each: Duration::from_secs(1), least: 1 << 10, max: u64::MAX >> 1 };
    const DAY: Duration = Duration::from_secs(86_400);
    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    fn at(since: Duration) -> Millis {
        EPOCH.plus(since)
    }

    /// What a store that had given out `last` has given out after `time`, as fast as it can.
    fn used(last: u64, time: Duration) -> u64 {
        last + time.as_secs() * 1000
    }

    /// The store of a year is lost on the next day, restored, given up a minute later, and restored again; then from a
    /// backup of what was given up.
    #[test]
    fn no_store_of_one_origin_meets_another() {
        let minute = Duration::from_secs(60);
        let backup = used(0, YEAR);
        let lost = used(backup, DAY);
        let first = SKIP.behind(backup, at(YEAR + DAY)).unwrap();
        assert!(first >= lost, "{first} was given out by the lost store, which came to {lost}");
        let given_up = used(first, minute);
        let second = SKIP.behind(backup, at(YEAR + DAY + minute)).unwrap();
        assert!(second >= given_up, "{second} was given out by the store that was given up, at {given_up}");
        let later = SKIP.behind(given_up, at(YEAR + 2 * DAY)).unwrap();
        assert!(later >= used(second, DAY - minute), "{later} was given out by the one restored before");
    }

    /// Stores are restored again and again for a hundred years.
    #[test]
    fn restores_do_not_add_up() {
        let mut last = 0;
        for day in 1..36_500 {
            last = SKIP.behind(last, at(day * DAY)).unwrap();
        }
        assert_eq!(last, used(0, 36_499 * DAY));
    }

    /// One was restored by a clock that was far ahead.
    #[test]
    fn a_clock_that_was_wrong_makes_no_number_come_twice() {
        let ahead = SKIP.behind(5, at(50 * YEAR)).unwrap();
        let next = [YEAR, YEAR + DAY].map(|since| SKIP.behind(ahead, at(since)).unwrap());
        assert!(ahead < next[0] && next[0] < next[1], "{ahead}, {next:?}");
        assert_eq!(SKIP.behind(5, Millis(0)), Some(5 + SKIP.least), "a clock that says nothing");
        assert_eq!(SKIP.behind(5, Millis(7)), SKIP.behind(5, Millis(0)));
    }

    #[test]
    fn numbers_stay_within_their_width() {
        let few = Skip { max: 5 << 10, ..SKIP };
        assert_eq!(few.behind(4 << 10, Millis(0)), Some(5 << 10));
        assert_eq!(few.behind((4 << 10) + 1, Millis(0)), None);
        assert_eq!(few.behind(0, at(DAY)), None);
        for (last, now) in [(u64::MAX, Millis(0)), (0, Millis(u64::MAX)), (u64::MAX - SKIP.least, at(YEAR))] {
            assert_eq!(SKIP.behind(last, now), None);
        }
    }
}
