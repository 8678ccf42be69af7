//! Balancing on request: a plan is made once, and carried out a few moves at a time.

use super::error::RepairError;
use super::rules::rules;
use crate::core::Core;
use lead::BalancePlan;

/// Plans the moves, once every datanode has reported.
pub(super) async fn plan(core: &Core) {
    let rules = rules(core);
    let unplanned = core.leader().unplanned_balance();
    let Some((job, within)) = unplanned.filter(|_| rules.has_heard_all()) else { return };
    let mut balancing = core.with_cluster(|cluster, _| BalancePlan::begin(cluster, &rules, within));
    while !core.with_cluster(|cluster, _| balancing.step(cluster)) {
        tokio::task::yield_now().await;
    }
    core.leader().on_balance_planned(job, balancing.into_moves());
}

/// Begins moves while there is room for more.
pub(super) async fn begin_moves(core: &Core) -> Result<(), RepairError> {
    // A move is a copy.
    if core.with_cluster(|cluster, _| cluster.repair_hold.is_some()) {
        return Ok(());
    }
    loop {
        let rules = rules(core);
        let next = core.leader().next_move(&rules);
        let Some((next, command)) = next else { return Ok(()) };
        let written = core.change_blocks(command).await;
        let is_begun = written.as_ref().ok().map(Result::is_ok);
        core.leader().on_move_proposed(is_begun);
        if let Err(refused) = written? {
            tracing::debug!(container = %next.container, %refused, "container move not begun");
            continue;
        }
        tracing::info!(container = %next.container, from = %next.from, to = %next.to, "container move begun");
        core.repair_wake.notify_one();
    }
}
