//! Administration of repair: it can be made to wait, for the whole store.

use super::datanodes::until;
use crate::core::Core;
use crate::leaves;
use hdfs::Exception;
use wire::admin::repair::{HoldRepairRequest, HoldRepairResponse, RepairStatusRequest, RepairStatusResponse};

pub(super) async fn hold(core: &Core, request: HoldRepairRequest) -> Result<HoldRepairResponse, Exception> {
    leaves::hold_repair(core, until(core, request.for_ms)?).await?;
    Ok(HoldRepairResponse {})
}

pub(super) fn status(core: &Core, _request: RepairStatusRequest) -> RepairStatusResponse {
    let wall = core.now();
    let leader = core.leader();
    let (census, progress) = (leader.census.last(), leader.repair.progress());
    RepairStatusResponse {
        hold_left_ms: leader.cluster.repair_hold.map(|hold| hold.until.0.saturating_sub(wall.0)),
        under_replicated: census.under_replicated,
        missing: census.missing,
        pending: census.pending,
        copied_count: progress.copied_count,
        copied_len: progress.copied_len,
    }
}
