//! The group of metadata servers.

use crate::core::Core;
use hdfs::Exception;
use raft::Role;
use wire::admin::meta::{ListMembersRequest, ListMembersResponse, Member, MemberRole};

pub(super) fn list(core: &Core, _request: ListMembersRequest) -> Result<ListMembersResponse, Exception> {
    let group = core.raft.group();
    let members = group.members.into_iter().map(|member| Member {
        id: member.id,
        // A store that never was a group knows no address of its only member.
        addr: if member.addr.is_empty() { core.config.rpc_addr.to_string() } else { member.addr },
        role: match member.role {
            Role::Leader => MemberRole::Leader,
            Role::Standby => MemberRole::Standby,
            Role::Learner => MemberRole::Learner,
        }
        .into(),
        matched: member.matched,
    });
    Ok(ListMembersResponse { members: members.collect(), term: group.term, last: group.last })
}
