//! Lengths of time, as people write them and as they are told: numbers and units.

const SECOND_MS: u64 = 1000;

/// Milliseconds, above 0.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_any(text).ok().filter(|ms| *ms > 0).ok_or_else(|| "write a number and a unit, as 30m, 24h or 7d".into())
}

/// The same, or 0.
pub(crate) fn parse_any(text: &str) -> Result<u64, String> {
    let units = [("s", SECOND_MS), ("m", 60 * SECOND_MS), ("h", 3600 * SECOND_MS), ("d", 24 * 3600 * SECOND_MS)];
    let of_unit = |(unit, ms): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(ms);
    units.into_iter().find_map(of_unit).ok_or_else(|| "write a number and a unit, as 0s, 30s or 5m".into())
}

/// `3 s`, `4 min`, `2 h 5 min`: how long something takes. A part of a second counts as a whole one.
pub(crate) fn human(ms: u64) -> String {
    let seconds = ms.div_ceil(SECOND_MS);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_told_as_nothing() {
        assert_eq!([1, 90_000, 3_600_000, 7_500_000].map(human), ["1 s", "90 s", "60 min", "2 h 5 min"]);
    }
}
