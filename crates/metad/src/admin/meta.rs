//! The group of metadata servers.

use crate::refusal;
use crate::seat::Seat;
use hdfs::Exception;
use raft::{Peer, RaftError, Role};
use std::time::Duration;
use wire::admin::meta::{
    AddMemberRequest, AddMemberResponse, ListMembersRequest, ListMembersResponse, Member, MemberRole,
    RemoveMemberRequest, RemoveMemberResponse,
};

/// A new member may have much to take over; whoever waits for it asks again.
const CATCH_UP_WAIT: Duration = Duration::from_secs(20);
const REMOVE_WAIT: Duration = Duration::from_secs(20);
/// A host's name and a port.
const ADDR_LEN_MAX: usize = 300;

pub(super) fn list(seat: &Seat, _request: ListMembersRequest) -> Result<ListMembersResponse, Exception> {
    let group = seat.raft.group();
    let members = group.members.into_iter().map(|member| Member {
        id: member.id,
        addr: seat.addr_of(member.id, &member.addr),
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

pub(super) async fn add(seat: &Seat, request: AddMemberRequest) -> Result<AddMemberResponse, Exception> {
    require_group(seat)?;
    let AddMemberRequest { id, addr } = request;
    if id == 0 || addr.len() > ADDR_LEN_MAX || !addr.contains(':') {
        return Err(refusal::illegal("a member has an id from 1 on, and an address host:port"));
    }
    tracing::info!(id, addr, "a metadata server is to join");
    match tokio::time::timeout(CATCH_UP_WAIT, seat.raft.add_member(Peer { id, addr })).await {
        Ok(added) => added.map(|()| AddMemberResponse { has_vote: true }).map_err(refused),
        Err(_elapsed) => Ok(AddMemberResponse { has_vote: false }),
    }
}

pub(super) async fn remove(seat: &Seat, request: RemoveMemberRequest) -> Result<RemoveMemberResponse, Exception> {
    require_group(seat)?;
    tracing::info!(id = request.id, "a metadata server is to leave");
    match tokio::time::timeout(REMOVE_WAIT, seat.raft.remove_member(request.id)).await {
        Ok(removed) => removed.map(|()| RemoveMemberResponse {}).map_err(refused),
        Err(_elapsed) => Err(Exception::io("the group does not answer; is a majority of it up?")),
    }
}

fn require_group(seat: &Seat) -> Result<(), Exception> {
    if seat.peers.is_some() {
        return Ok(());
    }
    Err(refusal::illegal(
        "this metadata server is alone: give it a list of members with itself in it ([[meta.members]]) and start it again",
    ))
}

fn refused(error: RaftError) -> Exception {
    match error {
        RaftError::Members { reason } => refusal::illegal(reason),
        other => refusal::raft(other),
    }
}
