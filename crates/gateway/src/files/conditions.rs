//! What a request says of the file that it knows (RFC 9110 §13): pure.

use axum::http::header::{HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use client::Status;
use std::time::{Duration, SystemTime};
use types::Millis;

/// By what a client tells whether a file is the one it knows.
#[derive(Debug)]
pub(super) struct Validators {
    /// Other bytes have another id, length or time.
    pub(super) etag: String,
    modified: SystemTime,
}

/// Headers have whole seconds.
fn at(time: Millis) -> SystemTime {
    let seconds = Duration::from_secs(time.0 / 1000);
    SystemTime::UNIX_EPOCH.checked_add(seconds).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// As headers have it.
pub(super) fn http_date(time: Millis) -> String {
    httpdate::fmt_http_date(at(time))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    NotModified,
    Failed,
}

impl Validators {
    pub(super) fn of(status: &Status) -> Self {
        let Status { id, modified, len, .. } = status;
        let modified_at = at(*modified);
        Self { etag: format!("\"{id:x}-{:x}-{len:x}\"", modified.0), modified: modified_at }
    }

    pub(super) fn last_modified(&self) -> String {
        httpdate::fmt_http_date(self.modified)
    }

    /// In the RFC's order.
    pub(super) fn judge(&self, headers: &HeaderMap) -> Verdict {
        let date = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.and_then(|value| httpdate::parse_http_date(value).ok())
        };
        // A list may come in several lines.
        let tags = |name: HeaderName| {
            let lines = headers.get_all(&name).iter().map(|value| value.to_str().unwrap_or_default());
            headers.contains_key(&name).then(|| lines.collect::<Vec<_>>().join(","))
        };
        let has_failed = match tags(IF_MATCH) {
            Some(tags) => !self.is_among(&tags, Strength::Strong),
            None => date(IF_UNMODIFIED_SINCE).is_some_and(|since| self.modified > since),
        };
        if has_failed {
            return Verdict::Failed;
        }
        let is_known = match tags(IF_NONE_MATCH) {
            Some(tags) => self.is_among(&tags, Strength::Weak),
            None => date(IF_MODIFIED_SINCE).is_some_and(|since| self.modified <= since),
        };
        if is_known { Verdict::NotModified } else { Verdict::GoOn }
    }

    /// Whether ranges may be answered with ranges: `If-Range` is not there, or has the file's ETag. A time of whole
    /// seconds does not say that the bytes are the same.
    pub(super) fn range_counts(&self, if_range: Option<&str>) -> bool {
        if_range.is_none_or(|tag| tag.trim() == self.etag)
    }

    fn is_among(&self, tags: &str, strength: Strength) -> bool {
        let is_own = |tag: &str| match strength {
            Strength::Strong => tag == self.etag,
            Strength::Weak => tag.strip_prefix("W/").unwrap_or(tag) == self.etag,
        };
        // Ours have no comma in them.
        tags.trim() == "*" || tags.split(',').any(|tag| is_own(tag.trim()))
    }
}

#[derive(Clone, Copy)]
enum Strength {
    Strong,
    Weak,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modified at 784,111,777.5 s: Sun, 06 Nov 1994 08:49:37 GMT, the RFC's example.
    fn validators() -> Validators {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        Validators { etag: "\"a\"".into(), modified }
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
        let (same, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
        for (headers, is) in [
            (vec![], Verdict::GoOn),
            (vec![(IF_MATCH, "\"b\", \"a\"")], Verdict::GoOn),
            (vec![(IF_MATCH, "*")], Verdict::GoOn),
            (vec![(IF_MATCH, "\"b\""), (IF_MATCH, "\"a\"")], Verdict::GoOn),
            (vec![(IF_MATCH, "W/\"a\"")], Verdict::Failed),
            (vec![(IF_MATCH, "\"a\""), (IF_UNMODIFIED_SINCE, before)], Verdict::GoOn),
            (vec![(IF_UNMODIFIED_SINCE, before)], Verdict::Failed),
            (vec![(IF_UNMODIFIED_SINCE, same)], Verdict::GoOn),
            (vec![(IF_NONE_MATCH, "W/\"a\"")], Verdict::NotModified),
            (vec![(IF_NONE_MATCH, "*")], Verdict::NotModified),
            (vec![(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, same)], Verdict::GoOn),
            (vec![(IF_MODIFIED_SINCE, same)], Verdict::NotModified),
            (vec![(IF_MODIFIED_SINCE, before)], Verdict::GoOn),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], Verdict::GoOn),
            (vec![(IF_MATCH, "\"a\""), (IF_NONE_MATCH, "\"a\"")], Verdict::NotModified),
        ] {
            let mut map = HeaderMap::new();
            headers.iter().for_each(|(name, value)| _ = map.append(name, value.parse().unwrap()));
            assert_eq!(validators().judge(&map), is, "{headers:?}");
        }
    }

    #[test]
    fn ranges_are_of_the_same_bytes_or_of_none() {
        let validators = validators();
        assert_eq!(validators.last_modified(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(validators.range_counts(None) && validators.range_counts(Some("\"a\"")));
        for other in ["\"b\"", "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert!(!validators.range_counts(Some(other)), "{other}");
        }
    }
}
