//! What people ask of the store: `org.levada.AdminProtocol`, for superusers. One file for each thing that is
//! administered.

mod datanodes;
mod jobs;
mod meta;
pub(crate) mod placement;

use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use wire::admin::{ADMIN_VERSION, datanodes as nodes, jobs as work, meta as members, placement as places};

/// What is asked of the group itself any member may answer, as far as it knows; all the rest is the leader's, who is
/// `seat.leading().await?`.
pub(crate) async fn call(seat: &Seat, call: Call) -> Result<Bytes, Exception> {
    call.check_version(ADMIN_VERSION)?;
    seat.require_superuser(&call).await?;
    match call.method.as_str() {
        members::LIST_MEMBERS => meta::list(seat, call.request()?).await.map(|answer| encode(&answer)),
        members::ADD_MEMBER => meta::add(seat, call.request()?).await.map(|answer| encode(&answer)),
        members::REMOVE_MEMBER => meta::remove(seat, call.request()?).await.map(|answer| encode(&answer)),
        nodes::LIST_DATANODES => Ok(encode(&datanodes::list(&*seat.leading().await?, call.request()?))),
        nodes::DRAIN => datanodes::drain(&*seat.leading().await?, call.request()?).await.map(|answer| encode(&answer)),
        places::LIST_PIPELINES => Ok(encode(&placement::pipelines(&*seat.leading().await?, call.request()?))),
        places::LIST_CONTAINERS => Ok(encode(&placement::containers(&*seat.leading().await?, call.request()?))),
        places::UNDER_REPLICATED => {
            placement::under_replicated(&seat.leading().await?, call.request()?).await.map(|answer| encode(&answer))
        }
        work::LIST_JOBS => Ok(encode(&jobs::list(&*seat.leading().await?, call.request()?))),
        work::BEGIN_SCRUB => jobs::scrub(&*seat.leading().await?, call.request()?).await.map(|answer| encode(&answer)),
        work::BEGIN_DISK_BALANCE => {
            jobs::balance_disks(&*seat.leading().await?, call.request()?).await.map(|answer| encode(&answer))
        }
        work::BEGIN_BALANCE => {
            jobs::balance(&*seat.leading().await?, call.request()?).await.map(|answer| encode(&answer))
        }
        work::STOP_JOB => jobs::stop(&*seat.leading().await?, call.request()?).await.map(|answer| encode(&answer)),
        _ => Err(call.no_such_method()),
    }
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
