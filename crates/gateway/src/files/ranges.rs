//! Which bytes of a file a request asks for (`Range`, RFC 9110 §14): pure.

use std::ops::Range;

/// Ranges of one request. A guess: as many as the columns of a file have pieces.
const RANGE_COUNT_MAX: usize = 16_384;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// In the order in which they were asked for; none is empty, and none reaches beyond the end.
    Ranges(Vec<Range<u64>>),
    /// What was asked for begins beyond the end.
    Nothing,
}

/// `header` is `None` where the request has none that counts. One that makes no sense, or asks for more than the file
/// has, as for the same bytes again and again, stands for the whole file, as the RFC lets servers decide.
pub(crate) fn wanted(header: Option<&str>, len: u64) -> Wanted {
    let Some(specs) = header.and_then(specs) else { return Wanted::All };
    let ranges: Vec<Range<u64>> = specs.into_iter().filter_map(|spec| spec.of(len)).collect();
    if ranges.is_empty() {
        return Wanted::Nothing;
    }
    let sum = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
    if sum.is_none_or(|sum| sum > len) { Wanted::All } else { Wanted::Ranges(ranges) }
}

#[derive(Debug, PartialEq, Eq)]
enum Spec {
    /// From a byte on, to this one if it is named.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl Spec {
    fn of(&self, len: u64) -> Option<Range<u64>> {
        let range = match *self {
            Self::From(first, last) => first..last.map_or(len, |last| last.saturating_add(1).min(len)),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (range.start < range.end).then_some(range)
    }
}

/// `None`: it is no list of ranges of bytes.
fn specs(header: &str) -> Option<Vec<Spec>> {
    let (unit, list) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let specs: Vec<Spec> = words.take(RANGE_COUNT_MAX + 1).map(spec).collect::<Option<_>>()?;
    (1..=RANGE_COUNT_MAX).contains(&specs.len()).then_some(specs)
}

fn spec(word: &str) -> Option<Spec> {
    let (first, last) = word.split_once('-')?;
    match (number(first), number(last)) {
        (Some(first), None) if last.is_empty() => Some(Spec::From(first, None)),
        (Some(first), Some(last)) if first <= last => Some(Spec::From(first, Some(last))),
        (None, Some(count)) if first.is_empty() => Some(Spec::Last(count)),
        _ => None,
    }
}

/// Digits alone; of more than there can be bytes, the most.
fn number(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(ranges: &[(u64, u64)]) -> Wanted {
        Wanted::Ranges(ranges.iter().map(|(start, end)| *start..*end).collect())
    }

    #[test]
    fn ranges_are_taken_as_the_rfc_has_them() {
        for (header, is) in [
            ("bytes=0-0", some(&[(0, 1)])),
            ("bytes=90-", some(&[(90, 100)])),
            ("bytes=90-1000", some(&[(90, 100)])),
            ("bytes=-7", some(&[(93, 100)])),
            ("bytes=-1000", some(&[(0, 100)])),
            ("Bytes = 5-6 , 1-2,,-1", some(&[(5, 7), (1, 3), (99, 100)])),
            ("bytes=50-60,100-200,300-", some(&[(50, 61)])),
            ("bytes=99999999999999999999-", Wanted::Nothing),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
        ] {
            assert_eq!(wanted(Some(header), 100), is, "{header}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Nothing);
    }

    #[test]
    fn what_makes_no_sense_asks_for_all() {
        for header in
            ["", "bytes", "bytes=", "bytes=a-b", "bytes=7-5", "bytes=1", "rows=1-2", "bytes=+1-2", "bytes=--5"]
        {
            assert_eq!(wanted(Some(header), 100), Wanted::All, "{header}");
        }
        assert_eq!(wanted(None, 100), Wanted::All);
    }

    /// An answer is never longer than the file, whatever is asked for.
    #[test]
    fn who_asks_for_the_same_again_gets_it_once() {
        assert_eq!(wanted(Some("bytes=0-60,0-60"), 100), Wanted::All);
        let many = |count: usize| format!("bytes={}", vec!["0-0"; count].join(","));
        assert_eq!(wanted(Some(&many(101)), 100), Wanted::All);
        assert!(matches!(wanted(Some(&many(RANGE_COUNT_MAX)), 1 << 20), Wanted::Ranges(_)));
        assert_eq!(wanted(Some(&many(RANGE_COUNT_MAX + 1)), 1 << 20), Wanted::All);
    }
}
