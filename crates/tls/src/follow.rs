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
            Ok(true) => tracing::info!(what, "goes by new files of certificates"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the new files of certificates cannot be used: the former count"),
        }
        ::io::time::sleep(FOLLOW_EACH).await;
    }
}
