//! Datanodes' protocol: they register, report their replicas, and get orders: `org.levada.NodeProtocol`.
//!
//! `Cluster::claim` and `Cluster::standing` decide which process acts as a datanode. `lead::Leader` decides what
//! follows from a report. This module converts messages and looks replicas up in the rows.

mod binding;
pub(crate) mod heartbeat;
pub(crate) mod messages;
pub(crate) mod orders;
mod registration;
mod replicas;
mod sources;
pub(crate) mod standby;

use crate::visit::Visit;
use binding::listed;
use hdfs::Exception;
use messages::{node_id, usage};
use orders::command;
pub(crate) use sources::sources;
use wire::node::{CatalogueRequest, HeartbeatRequest, Orders, RegisterRequest, RegisterResponse};

pub(crate) async fn register(visit: &Visit, request: RegisterRequest) -> Result<RegisterResponse, Exception> {
    registration::register(visit.core(), &visit.leadership, &visit.call, request).await
}

pub(crate) async fn heartbeat(visit: &Visit, mut request: HeartbeatRequest) -> Result<Orders, Exception> {
    let (core, leadership) = (visit.core(), &*visit.leadership);
    let node = node_id(&request.node)?;
    let usage = usage(request.usage, request.transfer_count);
    let sender = request.sender.take();
    let known = match listed(visit, &request.node, sender.as_ref())? {
        Some((process, addr)) => {
            let is_known = registration::admit(core, leadership, &visit.call, process, addr, Some(usage)).await?;
            is_known.then_some((process, addr))
        }
        None => None,
    };
    let (id, members) = leadership.members();
    let orders = match known {
        Some((process, addr)) => heartbeat::heartbeat(core, process, addr, request).await?,
        None => Orders::default(),
    };
    if known.is_some() {
        leadership.heard.beat(node, usage, core.monotonic());
        if !leadership.connections.has(node) {
            leadership.disconnected(node); // while the heartbeat was served
        }
    }
    command(core, node, Orders { id, members, ..orders }).await
}

pub(crate) async fn catalogue(visit: &Visit, request: CatalogueRequest) -> Result<Orders, Exception> {
    let core = visit.core();
    let node = node_id(&request.node)?;
    let is_known = match listed(visit, &request.node, request.sender.as_ref())? {
        Some((process, addr)) => registration::admit(core, &visit.leadership, &visit.call, process, addr, None).await?,
        None => false,
    };
    let orders = if is_known { replicas::catalogue(core, request).await? } else { Orders::default() };
    command(core, node, orders).await
}
