//! The next connection of a port, whatever kind of listener it has.

use crate::log_limit::LogLimit;
use std::io::Result;
use std::time::Duration;

/// After an error that is not the connection's own, such as too many open files: others may go meanwhile. A guess.
const PAUSE: Duration = Duration::from_millis(100);

static NOT_ACCEPTED: LogLimit = LogLimit::new(Duration::from_secs(5));

/// What `accept` brings, once it brings a connection: it is called again after each error.
pub async fn accepted<T, F: Future<Output = Result<T>>>(mut accept: impl FnMut() -> F) -> T {
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                if let Some(passed_over) = NOT_ACCEPTED.due() {
                    tracing::warn!(%error, passed_over, "no connection could be accepted");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[tokio::test]
    async fn an_error_is_not_the_end_of_a_port() {
        let mut left = vec![Ok(5), Err(Error::other("too many open files"))];
        assert_eq!(accepted(|| std::future::ready(left.pop().unwrap())).await, 5);
    }
}
