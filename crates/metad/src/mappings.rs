//! Two small protocols of HDFS at the same port: a query for a user's groups, and a reset of the known ones.

use crate::visit::Visit;
use hdfs::Exception;
use hdfs::proto::*;

/// `hdfs groups`. Of each server by itself: tools ask all of a group.
pub(crate) async fn get(
    visit: &Visit,
    request: GetGroupsForUserRequestProto,
) -> Result<GetGroupsForUserResponseProto, Exception> {
    let leadership = &visit.leadership;
    let groups =
        leadership.users.groups(&request.user, visit.call.peer.ip(), leadership.clock.monotonic()).await?.to_vec();
    Ok(GetGroupsForUserResponseProto { groups })
}

/// `hdfs dfsadmin -refreshUserToGroupsMappings`, and the like for proxies: names of hosts are looked up again. Settings
/// are read when a server starts.
pub(crate) async fn refresh(visit: &Visit) -> Result<RefreshUserToGroupsMappingsResponseProto, Exception> {
    visit.leadership.forget_groups();
    if visit.leadership.users.has_host_names() {
        visit.leadership.users.resolve_hosts().await;
    }
    Ok(RefreshUserToGroupsMappingsResponseProto {})
}
