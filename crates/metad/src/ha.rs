//! HDFS's HAServiceProtocol, for `hdfs haadmin`: it can query which server leads, and cannot change it.
//!
//! Promise: the answers are those of a pair of name servers with automatic failover. Each member answers for itself
//! alone.

use crate::answer::Encoded;
use crate::visit::Visit;
use hdfs::Exception;
use hdfs::exception::{HEALTH_CHECK_FAILED, STANDBY, UNSUPPORTED_OPERATION};
use hdfs::proto::{GetServiceStatusResponseProto, HaServiceStateProto};

/// Why no tool can make this server the leader; `hdfs haadmin -failover` shows it.
const ELECTED: &str = "the metadata servers choose among themselves who leads: stop the one that should not";

/// `transitionToActive` and the like.
pub(crate) async fn transition(_visit: &Visit) -> Result<Encoded, Exception> {
    Err(Exception::new(UNSUPPORTED_OPERATION, ELECTED))
}

pub(crate) async fn status(visit: &Visit) -> Result<GetServiceStatusResponseProto, Exception> {
    let state = match visit.leadership.leading().await {
        Ok(_) => HaServiceStateProto::Active,
        Err(error) if error.class == STANDBY => HaServiceStateProto::Standby,
        Err(error) => return Err(error),
    };
    let is_active = state == HaServiceStateProto::Active;
    Ok(GetServiceStatusResponseProto {
        state: state.into(),
        ready_to_become_active: Some(is_active),
        not_ready_reason: (!is_active).then(|| ELECTED.into()),
    })
}

/// A standby is healthy while there is a leader to follow.
pub(crate) async fn health(visit: &Visit) -> Result<Encoded, Exception> {
    let leadership = &visit.leadership;
    let unwell = |reason: &str| Err(Exception::new(HEALTH_CHECK_FAILED, reason));
    match leadership.leading().await {
        Ok(_) => Ok(Encoded::EMPTY),
        Err(error) if error.class != STANDBY => unwell(&error.message),
        Err(_) if leadership.raft.group().leader.is_some_and(|id| id != leadership.config.id) => Ok(Encoded::EMPTY),
        Err(_) => unwell("no metadata server leads that this one knows of: fewer than a majority may be reached"),
    }
}
