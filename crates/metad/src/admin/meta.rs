//! Administration of the group of metadata servers.

use crate::leadership::Leadership;
use crate::refusal;
use hdfs::Exception;
use raft::{Peer, RaftError, Role};
use std::time::Duration;
use wire::admin::meta::{
    AddMemberRequest, AddMemberResponse, ListMembersRequest, ListMembersResponse, Member, MemberRole,
    RemoveMemberRequest, RemoveMemberResponse,
};

/// A new member may have much to copy; a caller that waits for it asks again.
const CATCH_UP_WAIT: Duration = Duration::from_secs(20);
const REMOVE_WAIT: Duration = Duration::from_secs(20);
/// A host's name and a port.
const ADDR_LEN_MAX: usize = 300;

/// As this member sees the group. Only the leader knows how far the others are, so callers ask all members.
pub(super) async fn list(
    leadership: &Leadership,
    _request: ListMembersRequest,
) -> Result<ListMembersResponse, Exception> {
    let leads = leadership.leading().await.is_ok();
    let group = leadership.raft.group();
    let members = group.members.into_iter().map(|member| Member {
        id: member.id,
        addr: leadership.addr_of(member.id, &member.addr),
        role: match member.role {
            Role::Leader => MemberRole::Leader,
            Role::Standby => MemberRole::Standby,
            Role::Learner => MemberRole::Learner,
        }
        .into(),
        matched: member.matched,
    });
    Ok(ListMembersResponse {
        members: members.collect(),
        term: group.term,
        last: group.last,
        id: leadership.config.id,
        leads,
    })
}

pub(super) async fn add(leadership: &Leadership, request: AddMemberRequest) -> Result<AddMemberResponse, Exception> {
    require_group(leadership)?;
    leadership.leading().await?;
    let AddMemberRequest { id, addr } = request;
    if id == 0 || addr.len() > ADDR_LEN_MAX || !addr.contains(':') {
        return Err(refusal::illegal("a member has an id from 1 on, and an address host:port"));
    }
    let known = leadership.addr_of(id, &addr);
    if known != addr {
        let own = leadership.config.id;
        return Err(refusal::illegal(format!(
            "the configuration of server {own}, which leads, says that server {id} is at {known}; correct it there and \
             start that server again, or give the new one another id"
        )));
    }
    tracing::info!(id, addr, "metadata server added to the group");
    match io::time::timeout(CATCH_UP_WAIT, leadership.raft.add_member(Peer { id, addr })).await {
        Ok(added) => added.map(|()| AddMemberResponse { has_vote: true }).map_err(refused),
        Err(_elapsed) => Ok(AddMemberResponse { has_vote: false }),
    }
}

pub(super) async fn remove(
    leadership: &Leadership,
    request: RemoveMemberRequest,
) -> Result<RemoveMemberResponse, Exception> {
    require_group(leadership)?;
    leadership.leading().await?;
    tracing::info!(id = request.id, "metadata server removed from the group");
    match io::time::timeout(REMOVE_WAIT, leadership.raft.remove_member(request.id)).await {
        Ok(removed) => removed.map(|()| RemoveMemberResponse {}).map_err(refused),
        Err(_elapsed) => Err(Exception::io("the group does not answer; is a majority of it up?")),
    }
}

fn require_group(leadership: &Leadership) -> Result<(), Exception> {
    if leadership.peers.is_some() {
        return Ok(());
    }
    Err(refusal::illegal(
        "this metadata server is alone: give it a list of members with itself in it ([[meta.members]]) and start it \
         again",
    ))
}

fn refused(error: RaftError) -> Exception {
    match error {
        RaftError::Members { reason } => refusal::illegal(reason),
        RaftError::NotNew { .. } => refusal::illegal(error.to_string()),
        other => refusal::raft(other),
    }
}
