//! Dates as text, in UTC.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use types::Millis;

/// `Sat Nov 21 16:41:05 UTC 2026`, as Java prints a date.
pub(crate) fn java(time: Millis) -> String {
    date(time).format("%a %b %d %H:%M:%S UTC %Y").to_string()
}

/// `2026-11-23T10:00:00.123Z`
pub(crate) fn rfc3339(time: Millis) -> String {
    date(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// `261123100000`: the name of a checkpoint of the trash.
pub(crate) fn checkpoint(time: Millis) -> String {
    date(time).format("%y%m%d%H%M%S").to_string()
}

/// The moment that such a name says, also one without seconds.
pub(crate) fn of_checkpoint(name: &str) -> Option<Millis> {
    if ![10, 12].contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let date = NaiveDateTime::parse_from_str(&format!("{name:0<12}"), "%y%m%d%H%M%S").ok()?;
    u64::try_from(date.and_utc().timestamp_millis()).ok().map(Millis)
}

fn date(time: Millis) -> DateTime<Utc> {
    let date = i64::try_from(time.0).ok().and_then(DateTime::from_timestamp_millis);
    date.unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_look_as_java_prints_them() {
        assert_eq!(java(Millis(0)), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(java(Millis(1_795_279_265_000)), "Sat Nov 21 16:41:05 UTC 2026");
        assert_eq!(java(Millis(1_709_164_800_000)), "Thu Feb 29 00:00:00 UTC 2024");
    }

    #[test]
    fn dates_for_machines_have_milliseconds() {
        assert_eq!(rfc3339(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Millis(1_795_279_265_007)), "2026-11-21T16:41:05.007Z");
    }
}
