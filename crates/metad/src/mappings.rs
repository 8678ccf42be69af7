//! Two small protocols of HDFS at the same port: which groups a user has, and forgetting what was known of that.

use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use prost::Message;
use rpc::Call;

/// `hdfs groups`. Of each server by itself: tools ask all of a group.
pub(crate) async fn get(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    if call.method != "getGroupsForUser" {
        return Err(call.no_such_method());
    }
    let request: GetGroupsForUserRequestProto = call.request()?;
    let groups = seat.users.groups(&request.user, seat.clock.monotonic()).await?.to_vec();
    Ok(GetGroupsForUserResponseProto { groups }.encode_to_vec().into())
}

/// `hdfs dfsadmin -refreshUserToGroupsMappings`, and the like for proxies, of which there are no lists.
pub(crate) fn refresh(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    if !matches!(&*call.method, "refreshUserToGroupsMappings" | "refreshSuperUserGroupsConfiguration") {
        return Err(call.no_such_method());
    }
    seat.users.forget();
    Ok(RefreshUserToGroupsMappingsResponseProto {}.encode_to_vec().into())
}
