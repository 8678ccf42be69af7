//! Handling of a background task's fault: it is logged, and the task pauses.

use crate::core::Core;
use io::time::sleep;
use std::sync::Arc;
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
        tracing::debug!(%error, "background task paused: another server leads");
    } else {
        tracing::error!(%error, "background task paused after a fault");
    }
    sleep(FAULT_PAUSE).await;
}

/// Rests if something went wrong.
pub(crate) async fn rest_after_fault<E: std::error::Error + Sync + 'static>(done: Result<(), E>) {
    if let Err(error) = done {
        fault(&error).await;
    }
}

/// Held by a task that takes work out of the leader's queues, which is lost with the task: if that panics, the leader
/// begins anew, and finds the work in the rows.
pub(crate) struct TakenWork(pub(crate) Arc<Core>);

impl Drop for TakenWork {
    fn drop(&mut self) {
        // One that is dropped otherwise was ended with the time of its leader.
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}
