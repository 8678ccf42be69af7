//! Dates, in UTC: a listing reads the same wherever it is read.

use chrono::{DateTime, NaiveDateTime, Utc};
use types::Millis;

/// `2026-11-21 08:30`, as in a listing.
pub(crate) fn minute(time: Millis) -> String {
    date(time).format("%Y-%m-%d %H:%M").to_string()
}

/// `2026-11-21 08:30:05`.
pub(crate) fn second(time: Millis) -> String {
    date(time).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A server may name a time beyond all calendars.
fn date(time: Millis) -> DateTime<Utc> {
    let millis = i64::try_from(time.0).ok();
    millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Takes `2026-11-21 08:30:05`, without seconds or time too, and HDFS's `20261121:083005`.
pub(crate) fn parse(text: &str) -> Result<Millis, String> {
    let wrong = || format!("{text:?} is no time; write it as 2026-11-21 08:30:05 (UTC)");
    let is_ours = |letter: char| letter.is_ascii_digit() || "- :T".contains(letter);
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !text.chars().all(is_ours) || ![8, 12, 14].contains(&digits.len()) {
        return Err(wrong());
    }
    let date = NaiveDateTime::parse_from_str(&format!("{digits:0<14}"), "%Y%m%d%H%M%S").map_err(|_| wrong())?;
    u64::try_from(date.and_utc().timestamp_millis()).map(Millis).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_827_696, "2000-02-29 12:34:56"),
            (1_795_249_805, "2026-11-21 08:30:05"),
            (4_102_444_799, "2099-12-31 23:59:59"),
        ] {
            assert_eq!(second(Millis(seconds * 1000)), text);
            assert_eq!(parse(text), Ok(Millis(seconds * 1000)));
        }
        assert_eq!(minute(Millis(1_795_249_805_999)), "2026-11-21 08:30");
        assert_eq!(parse("20261121:083005"), Ok(Millis(1_795_249_805_000)));
        assert_eq!(parse("2026-11-21").map(second), Ok("2026-11-21 00:00:00".into()));
        assert!(!second(Millis(u64::MAX)).is_empty());
        for bad in ["", "now", "2026-13-01", "2026-02-30", "1960-01-01", "2026-11-21 25:00"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
