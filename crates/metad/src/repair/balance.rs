//! Balancing that was asked for: a plan is made once, and carried out a few moves at a time.

use super::error::RepairError;
use super::jobs;
use super::rules::rules;
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::{Balance, BalancePlan};

/// Begins, and answers the job. `Err` inside: the one that is under way.
pub(crate) async fn begin(core: &Core, within: u64) -> Result<Result<u64, u64>, RepairError> {
    let begun = jobs::begin(core, JobKind::Balance, "", JobTask::Balance { within }).await?;
    if begun.is_ok() {
        plan(core).await;
        settle(core); // there may be nothing to do
        jobs::write_ends(core).await?;
    }
    Ok(begun)
}

/// Looks up what is to be moved, once there is something to say of all datanodes.
async fn plan(core: &Core) {
    let rules = rules(core);
    let unplanned =
        core.leader().balance.as_ref().filter(|balance| !balance.is_planned()).map(|known| (known.job, known.within));
    let Some((job, within)) = unplanned.filter(|_| rules.can_tell()) else { return };
    let mut balancing = core.with_cluster(|cluster, _| BalancePlan::begin(cluster, &rules, within));
    while !core.with_cluster(|cluster, _| balancing.step(cluster)) {
        tokio::task::yield_now().await;
    }
    let moves = balancing.into_moves();
    core.leader().on_balance_planned(job, moves, core.monotonic());
}

pub(crate) fn stop(core: &Core) {
    if let Some(balance) = &mut core.leader().balance {
        balance.stopping = true;
    }
}

pub(super) async fn round(core: &Core) -> Result<(), RepairError> {
    plan(core).await;
    loop {
        settle(core);
        let next = core.leader().balance.as_mut().and_then(Balance::take);
        let Some(next) = next else { return Ok(()) };
        let rules = rules(core);
        let command = core.with_leader(|leader, _| leader.cluster.begin_move(&next, &leader.repair, &rules));
        let written = match command {
            Some(command) => core.change_blocks(command).await.map(|answer| answer.is_ok()),
            None => Ok(false),
        };
        if written.is_err()
            && let Some(balance) = &mut core.leader().balance
        {
            balance.put_back();
        }
        let begun = written?;
        if begun {
            tracing::info!(container = %next.container, from = %next.from, to = %next.to, "a container moves");
        }
        if let Some(balance) = &mut core.leader().balance {
            balance.on_proposed(begun);
        }
        core.repair_wake.notify_one();
    }
}

/// Counts what has been done, and ends what is over.
pub(super) fn settle(core: &Core) {
    let now = core.monotonic();
    core.leader().settle_balance(now);
}
