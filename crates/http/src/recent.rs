//! What the server said a moment ago.
//!
//! Promise: however many ask, and whether or not they take the answers, the store is asked for its status, and for its
//! metrics in each form, at most once each [`FRESH`]. A crowd that asks again and again would otherwise keep it from
//! its work.

use crate::pages::{Pages, StatusSource};
use io::{Clock, SystemClock};
use metrics::Format;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A guess: nobody reads faster.
const FRESH: Duration = Duration::from_millis(100);

pub(crate) struct Recent {
    pages: Pages,
    clock: SystemClock,
    status: Last<Status>,
    openmetrics: Last<String>,
    prometheus: Last<String>,
}

/// What was made, and when.
type Last<T> = Mutex<Option<(Duration, Arc<T>)>>;

pub(crate) struct Status {
    pub(crate) value: Value,
    pub(crate) text: String,
    pub(crate) json: String,
}

impl Status {
    fn of(source: &StatusSource) -> Self {
        let status = source();
        let text = format!("Levada\n\n{status:#}\n\nMore: /status (JSON), /metrics (Prometheus), /health\n");
        Self { text, json: status.to_string(), value: status }
    }
}

impl Recent {
    pub(crate) fn new(pages: Pages) -> Self {
        let (status, openmetrics, prometheus) = Default::default();
        Self { pages, clock: SystemClock::new(), status, openmetrics, prometheus }
    }

    pub(crate) fn status(&self) -> Arc<Status> {
        self.fresh(&self.status, || Status::of(&self.pages.status))
    }

    pub(crate) fn metrics(&self, format: Format) -> Arc<String> {
        let last = match format {
            Format::OpenMetrics => &self.openmetrics,
            Format::Prometheus => &self.prometheus,
        };
        self.fresh(last, || (self.pages.metrics)(format))
    }

    fn fresh<T>(&self, last: &Last<T>, make: impl FnOnce() -> T) -> Arc<T> {
        // Whoever comes while it is made waits for it: that is shorter than making another.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if let Some((made, shown)) = &*last
            && now.saturating_sub(*made) < FRESH
        {
            return Arc::clone(shown);
        }
        let shown = Arc::new(make());
        *last = Some((now, Arc::clone(&shown)));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn many_who_ask_at_once_share_an_answer() {
        let count = Arc::new(AtomicU64::new(0));
        let (made, scraped) = (Arc::clone(&count), Arc::clone(&count));
        let recent = Recent::new(Pages {
            status: Arc::new(move || json!({ "asked": made.fetch_add(1, Ordering::Relaxed) })),
            metrics: Arc::new(move |_| scraped.fetch_add(1, Ordering::Relaxed).to_string()),
            check: None,
            proof: None,
        });
        let begun = recent.clock.monotonic();
        for _ in 0..1000 {
            assert!(recent.status().json.starts_with("{\"asked\":"));
            assert!(!recent.metrics(Format::Prometheus).is_empty());
        }
        let passed = (recent.clock.monotonic() - begun).as_millis() as u64 / FRESH.as_millis() as u64;
        assert!(count.load(Ordering::Relaxed) <= 2 * (passed + 1));
        io::task::sleep(FRESH);
        let before = count.load(Ordering::Relaxed);
        recent.status();
        assert_eq!(count.load(Ordering::Relaxed), before + 1, "a later one is new");
        recent.metrics(Format::OpenMetrics);
        assert_eq!(count.load(Ordering::Relaxed), before + 2, "and so is another form");
    }
}
