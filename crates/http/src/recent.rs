//! The status as it was a moment ago, in all its forms.
//!
//! Promise: however many ask, and whether or not they take the answers, the store is asked for its status at most once
//! each [`FRESH`]. A crowd that asks again and again would otherwise keep it from its work.

use crate::{StatusSource, metrics};
use io::{Clock, SystemClock};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A guess: nobody reads faster.
const FRESH: Duration = Duration::from_millis(100);

pub(crate) struct Recent {
    source: StatusSource,
    clock: SystemClock,
    last: Mutex<Option<(Duration, Arc<Shown>)>>,
}

pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) json: String,
    pub(crate) metrics: String,
}

impl Recent {
    pub(crate) fn new(source: StatusSource) -> Self {
        Self { source, clock: SystemClock::new(), last: Mutex::default() }
    }

    pub(crate) fn get(&self) -> Arc<Shown> {
        // Whoever comes while it is made waits for it: that is shorter than making another.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if let Some((made, shown)) = &*last
            && now.saturating_sub(*made) < FRESH
        {
            return Arc::clone(shown);
        }
        let status = (self.source)();
        let text = format!("Levada\n\n{status:#}\n\nMore: /status (JSON), /metrics (Prometheus), /health\n");
        let shown = Arc::new(Shown { text, json: status.to_string(), metrics: metrics::render(&status) });
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
    fn many_who_ask_at_once_share_a_status() {
        let count = Arc::new(AtomicU64::new(0));
        let made = Arc::clone(&count);
        let recent = Recent::new(Arc::new(move || json!({ "asked": made.fetch_add(1, Ordering::Relaxed) })));
        let begun = recent.clock.monotonic();
        for _ in 0..1000 {
            assert!(recent.get().json.starts_with("{\"asked\":"));
        }
        let passed = (recent.clock.monotonic() - begun).as_millis() as u64 / FRESH.as_millis() as u64;
        assert!(count.load(Ordering::Relaxed) <= passed + 1);
        io::task::sleep(FRESH);
        let before = count.load(Ordering::Relaxed);
        recent.get();
        assert_eq!(count.load(Ordering::Relaxed), before + 1, "a later one is new");
    }
}
