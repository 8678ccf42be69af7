//! How a background task takes a fault: it says so, and rests.

use io::stage::sleep;
use std::time::Duration;

/// After a fault of the store or the log; the server is about to stop then.
const FAULT_PAUSE: Duration = Duration::from_secs(5);

/// True if all that went wrong is that this server leads no more; then the tasks are about to end.
fn leads_elsewhere(error: &(dyn std::error::Error + Sync + 'static)) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if matches!(one.downcast_ref(), Some(raft::RaftError::NotLeader { .. })) {
            return true;
        }
        cause = one.source();
    }
    false
}

/// Rests after something went wrong.
pub(crate) async fn fault(error: &(dyn std::error::Error + Sync + 'static)) {
    if leads_elsewhere(error) {
        tracing::debug!(%error, "a background task rests: another server leads");
    } else {
        tracing::error!(%error, "a background task waits after a fault");
    }
    sleep(FAULT_PAUSE).await;
}
