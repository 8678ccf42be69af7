//! Balancing that begins by itself: so long after it began last, and when a datanode has joined, if the settings want
//! it.

use super::error::RepairError;
use super::jobs::begin;
use super::rules::rules;
use crate::command;
use crate::core::Core;
use blocks::{JobKind, JobTask};
use lead::FULL_PARTS;
use std::sync::Arc;

/// As near to the mean as `levada admin balance` comes by default: a tenth.
const WITHIN: u64 = FULL_PARTS / 10;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    let Some(each_ms) = core.live.balance_each_ms() else { return Ok(()) };
    if !rules(core).has_heard_all() || !is_due(core, each_ms) {
        return Ok(());
    }
    let task = rated(core, WITHIN, core.live.balance_len_per_s()).await?;
    match begin(core, JobKind::Balance, "", task).await {
        Ok(Ok(job)) => tracing::info!(job, "balancing begins by itself"),
        // Somebody asked for it just now.
        Ok(Err(_)) => {}
        Err(RepairError::Refused(why)) => tracing::warn!(why, "balancing did not begin"),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_due(core: &Core, each_ms: u64) -> bool {
    let wall = core.now();
    let mut leader = core.leader();
    if leader.jobs.find(JobKind::Balance, "").is_some() {
        return false;
    }
    let last = leader.jobs.last_begun(JobKind::Balance);
    let is_late = last.is_none_or(|last| wall.0.saturating_sub(last.0) >= each_ms);
    std::mem::take(&mut leader.is_newcomer_empty) || is_late
}

/// What is written down of balancing at this rate; 0: none. Members of the version before know no rate.
pub(crate) async fn rated(core: &Core, within: u64, len_per_s: u64) -> Result<JobTask, RepairError> {
    let len_per_s = Some(len_per_s).filter(|rate| *rate > 0);
    let is_known = len_per_s.is_none() || core.raise_level(command::LEAVES).await?;
    Ok(JobTask::Balance { within, len_per_s: len_per_s.filter(|_| is_known) })
}
