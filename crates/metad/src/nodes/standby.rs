//! A standby's answers to datanodes: it records which nodes are live, and gives no orders.

use super::binding::{bind, must_be_free, process_of, registered};
use super::messages::{described, usage, version};
use super::registration::is_foreign;
use crate::refusal;
use crate::visit::Visit;
use hdfs::Exception;
use wire::node::{CatalogueRequest, HeartbeatRequest, Orders, RegisterRequest, RegisterResponse};

pub(crate) async fn register(visit: &Visit, request: RegisterRequest) -> Result<RegisterResponse, Exception> {
    let leadership = &visit.leadership;
    // Before the first leader there is no pool to join.
    let founding = leadership.machine.founding().map_err(refusal::rows)?;
    let block_pool = founding.ok_or_else(|| leadership.standby())?.pool;
    if !is_foreign(leadership, &request, &block_pool) {
        let (usage, version) = (usage(request.usage, 0), version(&request));
        let node = described(request, visit.call.peer)?;
        must_be_free(leadership, &visit.call, node.id)?;
        // The leader decides which process is a datanode, which the rows record; others are not remembered.
        let row = blocks::tables::node(&leadership.machine.store().view(), node.id).map_err(refusal::rows)?;
        if row.is_some_and(|row| row.incarnation == node.incarnation) {
            let process = process_of(&node);
            leadership.heard.registered(node, usage, version, leadership.clock.monotonic());
            bind(leadership, &visit.call, process);
        }
    }
    Ok(RegisterResponse { block_pool, standby: true, term: 0, new: false, tokens: None })
}

pub(crate) async fn heartbeat(visit: &Visit, request: HeartbeatRequest) -> Result<Orders, Exception> {
    let leadership = &visit.leadership;
    let usage = usage(request.usage, request.transfer_count);
    let process = registered(visit, &request.node, request.sender.as_ref())?;
    let known = process.is_some_and(|(process, _)| {
        leadership.heard.beat_of(process.id, process.incarnation, usage, leadership.clock.monotonic())
    });
    let (id, members) = leadership.members();
    Ok(Orders { known, standby: true, id, members, ..Orders::default() })
}

pub(crate) async fn catalogue(visit: &Visit, request: CatalogueRequest) -> Result<Orders, Exception> {
    let known = registered(visit, &request.node, request.sender.as_ref())?.is_some();
    Ok(Orders { known, standby: true, ..Orders::default() })
}
