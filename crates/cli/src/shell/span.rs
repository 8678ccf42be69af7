//! Lengths of time as people write them: a number and a unit.

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
