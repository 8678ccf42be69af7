//! Moments as people write them, in UTC.

use crate::Millis;

/// A moment taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: u64,
    pub day: u64,
    pub seconds_of_day: u64,
    /// 0 is Sunday.
    pub weekday: u64,
}

impl Civil {
    /// Howard Hinnant's `civil_from_days`: eras of 400 years, years that begin in March.
    pub fn of(time: Millis) -> Self {
        let seconds = time.0 / 1000;
        // The first day was a Thursday.
        let weekday = (seconds / 86_400 + 4) % 7;
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = (year_of_era + era * 400) as i64 + i64::from(month <= 2);
        Self { year, month, day, seconds_of_day: seconds % 86_400, weekday }
    }

    /// `Sat Nov 21 16:41:05 UTC 2026`, as Java prints a date.
    pub fn java(&self) -> String {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let second = self.seconds_of_day;
        format!(
            "{} {} {:02} {:02}:{:02}:{:02} UTC {}",
            DAYS[self.weekday as usize % 7],
            MONTHS[(self.month as usize + 11) % 12],
            self.day,
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.year
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_look_as_java_prints_them() {
        assert_eq!(Civil::of(Millis(0)).java(), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(Civil::of(Millis(1_795_279_265_000)).java(), "Sat Nov 21 16:41:05 UTC 2026");
        assert_eq!(Civil::of(Millis(1_709_164_800_000)).java(), "Thu Feb 29 00:00:00 UTC 2024");
    }
}
