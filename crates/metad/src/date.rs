//! Dates as text.

use chrono::{DateTime, Local, NaiveDateTime, SecondsFormat, TimeDelta, TimeZone, Utc};
use std::fmt::Display;
use types::Millis;

/// `Sat Nov 21 16:41:05 UTC 2026`, as Java prints a date.
pub(crate) fn java(time: Millis) -> String {
    date(time).format("%a %b %d %H:%M:%S UTC %Y").to_string()
}

/// `2026-11-23T10:00:00.123Z`
pub(crate) fn rfc3339(time: Millis) -> String {
    date(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// `261123100000`: the name of a checkpoint of the trash. In the machine's time zone, as HDFS's name node and its
/// clients have it.
pub(crate) fn checkpoint(time: Millis) -> String {
    checkpoint_in(&Local, time)
}

/// The moment that such a name says, also one without seconds.
pub(crate) fn of_checkpoint(name: &str) -> Option<Millis> {
    of_checkpoint_in(&Local, name)
}

fn checkpoint_in<Z: TimeZone<Offset: Display>>(zone: &Z, time: Millis) -> String {
    date(time).with_timezone(zone).format("%y%m%d%H%M%S").to_string()
}

fn of_checkpoint_in(zone: &impl TimeZone, name: &str) -> Option<Millis> {
    if ![10, 12].contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let date = NaiveDateTime::parse_from_str(&format!("{name:0<12}"), "%y%m%d%H%M%S").ok()?;
    // Where clocks are put back a name has two moments: the later one. Where they are put forward it has none.
    let at = |date| zone.from_local_datetime(&date).latest();
    let date = at(date).or_else(|| at(date.checked_add_signed(TimeDelta::hours(1))?))?;
    u64::try_from(date.timestamp_millis()).ok().map(Millis)
}

fn date(time: Millis) -> DateTime<Utc> {
    let date = i64::try_from(time.0).ok().and_then(DateTime::from_timestamp_millis);
    date.unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    #[test]
    fn dates_look_as_java_prints_them() {
        assert_eq!(java(Millis(0)), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(java(Millis(1_795_279_265_000)), "Sat Nov 21 16:41:05 UTC 2026");
        assert_eq!(java(Millis(1_709_164_800_000)), "Thu Feb 29 00:00:00 UTC 2024");
    }

    #[test]
    fn checkpoints_are_named_by_the_time_of_the_place() {
        let (time, tokyo) = (Millis(1_795_249_805_000), FixedOffset::east_opt(9 * 3600).unwrap());
        assert_eq!(checkpoint_in(&Utc, time), "261121083005");
        assert_eq!(checkpoint_in(&tokyo, time), "261121173005");
        assert_eq!(of_checkpoint_in(&tokyo, "261121173005"), Some(time));
        assert_eq!(of_checkpoint(&checkpoint(time)), Some(time), "wherever this runs");
        assert_eq!(of_checkpoint_in(&Utc, "2611210830"), Some(Millis(1_795_249_800_000)));
        for other in ["Current", "", "261321083005", "26112108300", "+61121083005"] {
            assert_eq!(of_checkpoint_in(&Utc, other), None, "{other}");
        }
    }

    #[test]
    fn dates_for_machines_have_milliseconds() {
        assert_eq!(rfc3339(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Millis(1_795_279_265_007)), "2026-11-21T16:41:05.007Z");
    }
}
