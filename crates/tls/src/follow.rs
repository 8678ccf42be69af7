//! Files of certificates that change while a process runs.

use crate::error::TlsError;
use std::sync::Arc;
use std::time::Duration;

/// A guess: who puts a new file there looks for its effect in the log within a minute.
pub(crate) const FOLLOW_EACH: Duration = Duration::from_secs(10);

/// Reads the files of `what` again and again, at once for the first time, so that new ones are used without a restart.
/// Never returns.
pub(crate) async fn follow(what: String, reload: impl Fn() -> Result<bool, TlsError> + Send + Sync + 'static) {
    let reload = Arc::new(reload);
    loop {
        let reload = Arc::clone(&reload);
        match ::io::task::blocking(move || reload()).await {
            // No fault, and still for everybody: who replaces an authority waits for it before the next step.
            Ok(true) => tracing::warn!(what, "goes by new files of certificates"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the new files of certificates cannot be used: the former count"),
        }
        ::io::time::sleep(FOLLOW_EACH).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;
    use std::sync::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// The messages that a server logs by default.
    #[derive(Clone, Default)]
    struct Messages(Arc<Mutex<Vec<String>>>);

    impl Visit for Messages {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Messages {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn new_span(&self, _span: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _span: &Id, _values: &Record<'_>) {}

        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _span: &Id) {}

        fn exit(&self, _span: &Id) {}
    }

    /// The steps by which an authority is replaced wait for this line.
    #[tokio::test]
    async fn new_files_are_seen_in_a_log_that_nobody_configured() {
        let messages = Messages::default();
        let _guard = tracing::subscriber::set_default(messages.clone());
        let following = follow("of a test".into(), || Ok(true));
        let seen = async {
            while messages.0.lock().unwrap().is_empty() {
                ::io::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = following => panic!("it never ends"),
            () = seen => {}
        }
        assert_eq!(*messages.0.lock().unwrap(), ["goes by new files of certificates"]);
    }
}
