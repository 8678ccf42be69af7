//! Two small protocols of HDFS at the same port: which groups a user has, and forgetting what was known of that.

use crate::caller::Session;
use crate::core::Core;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use hdfs::protocol::{GET_USER_MAPPINGS, REFRESH_USER_MAPPINGS};
use prost::Message;

/// `hdfs groups`. Everybody may ask about everybody, as in HDFS.
pub(crate) async fn get(core: &Core, method: &str, body: Bytes) -> Result<Bytes, Exception> {
    if method != "getGroupsForUser" {
        return Err(Exception::no_such_method(method, GET_USER_MAPPINGS));
    }
    let request = GetGroupsForUserRequestProto::decode(body);
    let request = request.map_err(|error| Exception::malformed_request("getGroupsForUser", error))?;
    let groups = core.users.groups(&request.user, core.monotonic()).await.to_vec();
    Ok(GetGroupsForUserResponseProto { groups }.encode_to_vec().into())
}

/// `hdfs dfsadmin -refreshUserToGroupsMappings`, and the like for proxies, of which there are no lists.
pub(crate) fn refresh(core: &Core, session: &Session, method: &str) -> Result<Bytes, Exception> {
    match method {
        "refreshUserToGroupsMappings" | "refreshSuperUserGroupsConfiguration" => {
            session.must_be_superuser(method)?;
            core.users.forget();
            Ok(RefreshUserToGroupsMappingsResponseProto {}.encode_to_vec().into())
        }
        _ => Err(Exception::no_such_method(method, REFRESH_USER_MAPPINGS)),
    }
}
