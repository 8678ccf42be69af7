//! What people ask of the store: `org.levada.AdminProtocol`, for superusers. One file for each thing that is
//! administered.

mod datanodes;
mod jobs;
mod meta;
pub(crate) mod placement;
mod refused;

use crate::visit::Visit;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use wire::admin::{datanodes as nodes, jobs as work, meta as members, placement as places};

/// What is asked of the group itself any member may answer, as far as it knows; all the rest is the leader's.
pub(crate) async fn call(visit: &Visit) -> Result<Bytes, Exception> {
    let (seat, call) = (&*visit.seat, &visit.call);
    match call.method.as_str() {
        members::LIST_MEMBERS => meta::list(seat, call.request()?).await.map(|answer| encode(&answer)),
        members::ADD_MEMBER => meta::add(seat, call.request()?).await.map(|answer| encode(&answer)),
        members::REMOVE_MEMBER => meta::remove(seat, call.request()?).await.map(|answer| encode(&answer)),
        nodes::LIST_DATANODES => Ok(encode(&datanodes::list(visit.core(), call.request()?))),
        nodes::DRAIN => datanodes::drain(visit.core(), call.request()?).await.map(|answer| encode(&answer)),
        places::LIST_PIPELINES => Ok(encode(&placement::pipelines(visit.core(), call.request()?))),
        places::LIST_CONTAINERS => Ok(encode(&placement::containers(visit.core(), call.request()?))),
        places::UNDER_REPLICATED => {
            placement::under_replicated(visit.core(), call.request()?).await.map(|answer| encode(&answer))
        }
        work::LIST_JOBS => Ok(encode(&jobs::list(visit.core(), call.request()?))),
        work::BEGIN_SCRUB => jobs::scrub(visit.core(), call.request()?).await.map(|answer| encode(&answer)),
        work::BEGIN_DISK_BALANCE => {
            jobs::balance_disks(visit.core(), call.request()?).await.map(|answer| encode(&answer))
        }
        work::BEGIN_BALANCE => jobs::balance(visit.core(), call.request()?).await.map(|answer| encode(&answer)),
        work::STOP_JOB => jobs::stop(visit.core(), call.request()?).await.map(|answer| encode(&answer)),
        _ => Err(call.no_such_method()),
    }
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
