//! HDFS's HAServiceProtocol, for `hdfs haadmin`: who leads can be asked here, and is not told here.
//!
//! Promise: the answers are those of a pair of name servers with an automatic failover. Every member answers, of itself
//! alone.

use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::{HEALTH_CHECK_FAILED, STANDBY, UNSUPPORTED_OPERATION};
use hdfs::proto::{GetServiceStatusResponseProto, HaServiceStateProto};
use prost::Message;
use rpc::Call;

/// Why no tool can make this server the leader; `hdfs haadmin -failover` shows it.
const ELECTED: &str = "the metadata servers choose among themselves who leads: stop the one that should not";

pub(crate) async fn call(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        "getServiceStatus" => status(seat).await,
        "monitorHealth" => health(seat).await,
        "transitionToActive" | "transitionToStandby" | "transitionToObserver" => {
            Err(Exception::new(UNSUPPORTED_OPERATION, ELECTED))
        }
        _ => Err(call.no_such_method()),
    }
}

async fn status(seat: &Seat) -> Result<Bytes, Exception> {
    let state = match seat.leading().await {
        Ok(_) => HaServiceStateProto::Active,
        Err(error) if error.class == STANDBY => HaServiceStateProto::Standby,
        Err(error) => return Err(error),
    };
    let is_active = state == HaServiceStateProto::Active;
    let answer = GetServiceStatusResponseProto {
        state: state.into(),
        ready_to_become_active: Some(is_active),
        not_ready_reason: (!is_active).then(|| ELECTED.into()),
    };
    Ok(answer.encode_to_vec().into())
}

/// A server that stands by is well while there is somebody to follow.
async fn health(seat: &Seat) -> Result<Bytes, Exception> {
    let unwell = |reason: &str| Err(Exception::new(HEALTH_CHECK_FAILED, reason));
    match seat.leading().await {
        Ok(_) => Ok(Bytes::new()),
        Err(error) if error.class != STANDBY => unwell(&error.message),
        Err(_) if seat.raft.group().leader.is_some_and(|id| id != seat.config.id) => Ok(Bytes::new()),
        Err(_) => unwell("no metadata server leads that this one knows of: fewer than a majority may be reached"),
    }
}
