//! Until when this server's own certificate counts.

use io::{Clock, SystemClock};
use metrics::{Described, Registry, gauge};
use std::sync::Arc;
use tls::Credentials;

const FAMILIES: &[Described] = &[gauge(
    "levada_certificate_not_after_timestamp_seconds",
    "When the certificate of this server ends or has ended, since 1970",
    &[],
)];

/// `None`: the store's servers have none, and nothing is shown.
pub(super) fn register(registry: &mut Registry, credentials: Option<Arc<Credentials>>) {
    registry.read(FAMILIES, move |readings| {
        let end = credentials.as_ref().and_then(|credentials| credentials.end(SystemClock::new().now()));
        if let Some(end) = end {
            readings.put(FAMILIES[0].name, &[], end.0 as f64 / 1e3);
        }
    });
}
