//! Two small protocols of HDFS at the same port: which groups a user has, and forgetting what was known of that.

use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use hdfs::protocol::{GET_USER_MAPPINGS, REFRESH_USER_MAPPINGS};
use prost::Message;
use rpc::Call;

/// Of each server by itself: tools ask all of a group.
pub(crate) async fn call(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    match (call.protocol.as_str(), call.method.as_str()) {
        (GET_USER_MAPPINGS, "getGroupsForUser") => get(seat, call).await,
        (REFRESH_USER_MAPPINGS, "refreshUserToGroupsMappings" | "refreshSuperUserGroupsConfiguration") => {
            refresh(seat, call).await
        }
        _ => Err(call.no_such_method()),
    }
}

/// `hdfs groups`. Everybody may ask about everybody, as in HDFS.
async fn get(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    let request: GetGroupsForUserRequestProto = call.request()?;
    let groups = seat.users.groups(&request.user, seat.clock.monotonic()).await?.to_vec();
    Ok(GetGroupsForUserResponseProto { groups }.encode_to_vec().into())
}

/// `hdfs dfsadmin -refreshUserToGroupsMappings`, and the like for proxies, of which there are no lists.
async fn refresh(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    seat.require_superuser(call).await?;
    seat.users.forget();
    Ok(RefreshUserToGroupsMappingsResponseProto {}.encode_to_vec().into())
}
