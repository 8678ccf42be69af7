//! Administration of datanodes: their list, which of them drain, and which are in maintenance.

use super::refused::refused;
use crate::core::Core;
use crate::leaves;
use crate::named_datanode;
use crate::refusal;
use crate::repair;
use crate::repair::jobs::begin_drain;
use crate::to_wire;
use blocks::{Command, Service};
use hdfs::Exception;
use std::sync::Arc;
use types::Millis;
use wire::admin::datanodes::{
    Datanode, DrainRequest, DrainResponse, LEAVE_MS_MAX, ListDatanodesRequest, ListDatanodesResponse,
    MaintenanceRequest, MaintenanceResponse,
};

pub(super) fn list(core: &Core, _request: ListDatanodesRequest) -> ListDatanodesResponse {
    let (rules, wall) = (repair::rules(core), core.now());
    let now = rules.now;
    let clocks = core.heard.clocks_ahead_ms();
    core.with_leader(|leader, _| {
        let (cluster, leased) = (&leader.cluster, leader.block_leases.homes(now));
        let datanodes = cluster.nodes().map(|member| {
            let pipelines = cluster.pipelines_of(member.node.id);
            let (leave, leave_left_ms) = to_wire::leave(member.leave, wall);
            let containers = pipelines.iter().map(|id| cluster.containers_of(*id).count() as u64).sum();
            Datanode {
                id: member.node.id.to_string(),
                addr: member.node.xfer_addr(),
                host: member.node.host.clone(),
                rack: member.node.rack.clone(),
                live: member.is_live(now),
                silent_ms: member.seen().map(|seen| now.saturating_sub(seen).as_millis() as u64),
                draining: member.service == Service::Draining,
                capacity_len: member.usage.capacity_len,
                used_len: member.usage.used_len,
                free_len: member.usage.free_len,
                transfer_count: member.transfer_count,
                pipeline_count: pipelines.len() as u64,
                container_count: containers,
                drained: leader.has_drained(member, &rules),
                disks: leader.disks().get(&member.node.id).into_iter().flatten().cloned().map(Into::into).collect(),
                leave: leave.into(),
                leave_left_ms,
                leased: leased
                    .as_ref()
                    .is_none_or(|homes| homes.iter().any(|home| cluster.is_member(*home, member.node.id))),
                covered: leader.may_be_away(member.node.id, &rules),
                clock_ahead_ms: clocks.get(&member.node.id).copied(),
                lone_found_count: match member.service == Service::Draining || member.is_in_maintenance() {
                    true => leader.lone_found_count(member.node.id, &rules) as u64,
                    // Looking at all found blocks takes a while.
                    false => 0,
                },
            }
        });
        ListDatanodesResponse { datanodes: datanodes.collect() }
    })
}

pub(super) async fn drain(core: &Arc<Core>, request: DrainRequest) -> Result<DrainResponse, Exception> {
    let node = named_datanode::find(core, &request.datanode)?;
    let service = if request.drain { Service::Draining } else { Service::Serving };
    tracing::info!(%node, ?service, "service state of a datanode changed");
    let answer = core.change_blocks(Command::SetService { node, service }).await.map_err(refusal::raft)?;
    answer.map_err(|refused| refusal::illegal(refused.to_string()))?;
    let job = if request.drain { begin_drain(core, node).await.map_err(refused)? } else { 0 };
    core.repair_wake.notify_one();
    core.prepare.notify_one();
    Ok(DrainResponse { id: node.to_string(), job })
}

pub(super) async fn maintenance(
    core: &Arc<Core>,
    request: MaintenanceRequest,
) -> Result<MaintenanceResponse, Exception> {
    let node = named_datanode::find(core, &request.datanode)?;
    leaves::set_maintenance(core, node, until(core, request.for_ms)?).await?;
    Ok(MaintenanceResponse { id: node.to_string() })
}

/// The end of what lasts for so long from now on; `None` if it ends now.
pub(super) fn until(core: &Core, for_ms: u64) -> Result<Option<Millis>, Exception> {
    if for_ms > LEAVE_MS_MAX {
        return Err(refusal::illegal(format!("{for_ms} ms is too long: at most {LEAVE_MS_MAX} ms, which is 30 days")));
    }
    Ok((for_ms > 0).then(|| Millis(core.now().0.saturating_add(for_ms))))
}
