//! The group of metadata servers.

use super::Admin;
use crate::error::Result;
use wire::admin::meta::{
    ADD_MEMBER, AddMemberRequest, AddMemberResponse, LIST_MEMBERS, ListMembersRequest, ListMembersResponse, MemberRole,
    REMOVE_MEMBER, RemoveMemberRequest, RemoveMemberResponse,
};

/// The metadata servers, as one of them sees the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub members: Vec<Member>,
    /// Rises with each election.
    pub term: u64,
    /// Index of the last log entry.
    pub last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub addr: String,
    /// `leader`, `standby`, or `learner` for one without a vote.
    pub role: &'static str,
    /// Index of the last log entry that the leader knows it has.
    pub matched: Option<u64>,
}

impl Admin {
    pub async fn members(&self) -> Result<Group> {
        let answer: ListMembersResponse = self.call(LIST_MEMBERS, &ListMembersRequest {}).await?;
        let members = answer.members.into_iter().map(|member| Member {
            role: match member.role() {
                MemberRole::Leader => "leader",
                MemberRole::Standby => "standby",
                MemberRole::Learner => "learner",
            },
            id: member.id,
            addr: member.addr,
            matched: member.matched,
        });
        Ok(Group { members: members.collect(), term: answer.term, last: answer.last })
    }

    /// Adds a server that was started to be added. False: it is still taking over what the others have; ask again.
    pub async fn add_member(&self, id: u64, addr: &str) -> Result<bool> {
        let request = AddMemberRequest { id, addr: addr.to_owned() };
        let answer: AddMemberResponse = self.call(ADD_MEMBER, &request).await?;
        Ok(answer.has_vote)
    }

    pub async fn remove_member(&self, id: u64) -> Result<()> {
        let _: RemoveMemberResponse = self.call(REMOVE_MEMBER, &RemoveMemberRequest { id }).await?;
        Ok(())
    }
}
