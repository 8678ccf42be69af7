//! Snapshots and turns for counting blocks with too few copies; `lead::CensusRound` decides.
//!
//! fsck, dfsadmin, `/metrics` and `levada admin` all use this count, so they report the same.

use super::rules::rules;
use crate::core::Core;
use lead::{Census, CensusRound, UnsoundReplicas};
use namespace::BlockView;
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;
use types::rows::RowsError;

/// Between counts without a request: `/metrics` shows the last count.
const COUNTED_EACH: Duration = Duration::from_secs(1);

/// Counts now and then until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        if let Err(error) = recount(&core).await {
            crate::task_fault::fault(&error).await;
        }
        io::time::sleep(COUNTED_EACH).await;
    }
}

/// The census of this moment; of a moment ago where counting takes long.
pub(crate) async fn latest(core: &Arc<Core>) -> Result<Arc<Census>, RowsError> {
    let cached = core.leader().census.cached();
    match cached {
        Some(census) => Ok(census),
        None => recount(core).await,
    }
}

async fn recount(core: &Arc<Core>) -> Result<Arc<Census>, RowsError> {
    let turn = Arc::clone(&core.counting).lock_owned().await;
    let holding = core.leader().census.holding(core.monotonic());
    if let Some(census) = holding {
        return Ok(census);
    }
    let core = Arc::clone(core);
    // The turn ends with the count, which continues when no caller waits for it any more.
    io::task::blocking(move || {
        let _turn = turn;
        count(&core)
    })
    .await
}

/// May wait for the disk.
fn count(core: &Core) -> Result<Arc<Census>, RowsError> {
    let rules = rules(core);
    let mut round = core.with_leader(|leader, _| CensusRound::begin(&leader.cluster, &leader.repair, rules));
    while core.with_cluster(|cluster, _| round.step(cluster)) {
        round.read(&core.machine.store().view())?;
    }
    let now = core.monotonic();
    Ok(core.leader().census.on_counted(round.end(), rules.now, now))
}

/// What is known to be wrong with single replicas at this moment.
pub(crate) fn unsound(core: &Core) -> UnsoundReplicas {
    UnsoundReplicas::of(&core.leader().repair)
}

/// Nodes that are here with a sound replica.
pub(crate) fn holders(core: &Core, known: &UnsoundReplicas, view: &BlockView) -> Vec<NodeId> {
    let rules = rules(core);
    core.with_cluster(|cluster, _| known.holders(cluster, &rules, view).collect())
}
