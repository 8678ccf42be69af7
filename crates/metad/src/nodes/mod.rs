//! Datanodes register, report what they have, and are told what to delete: `org.levada.NodeProtocol`.
//!
//! Which process is a datanode is decided by `Cluster::claim` and `Cluster::standing`.
//! What a report leads to is decided by `lead::Leader`; here it is converted, and replicas are looked up in the rows.

pub(crate) mod heartbeat;
pub(crate) mod messages;
pub(crate) mod orders;
mod registration;
mod replicas;
mod standby;

pub(crate) use standby::stand_by;

use crate::core::Core;
use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use heartbeat::heartbeat;
use messages::{encode, node_id, usage};
use orders::command;
use registration::{admit, register};
use replicas::catalogue;
use rpc::Call;
use std::sync::Arc;
use wire::node::{CATALOGUE, CatalogueRequest, HEARTBEAT, HeartbeatRequest, Orders, REGISTER};

pub(crate) async fn call(core: &Arc<Core>, seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        REGISTER => register(core, seat, call.peer, call.request()?).await.map(|answer| encode(&answer)),
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            let node = node_id(&request.node)?;
            let usage = usage(request.usage, request.transfer_count);
            let is_known = admit(core, seat, node, request.sender.as_ref(), Some(usage)).await?;
            let (id, members) = seat.members();
            let orders = if is_known { heartbeat(core, request).await? } else { Orders::default() };
            if is_known {
                seat.heard.beat(node, usage, core.monotonic());
                seat.beat(call.peer, node);
            }
            command(core, node, Orders { id, members, ..orders }).await
        }
        CATALOGUE => {
            let request: CatalogueRequest = call.request()?;
            let node = node_id(&request.node)?;
            let is_known = admit(core, seat, node, request.sender.as_ref(), None).await?;
            let orders = if is_known { catalogue(core, request).await? } else { Orders::default() };
            command(core, node, orders).await
        }
        _ => Err(call.no_such_method()),
    }
}
