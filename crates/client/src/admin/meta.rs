//! The group of metadata servers.

use super::connection::Admin;
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::admin::meta::{
    ADD_MEMBER, AddMemberRequest, AddMemberResponse, LIST_MEMBERS, ListMembersRequest, ListMembersResponse, MemberRole,
    REMOVE_MEMBER, RemoveMemberRequest, RemoveMemberResponse,
};

/// For one server's answer: one that is down or stopped must not hold up the list for long.
const LIST_WAIT: Duration = Duration::from_secs(3);
/// Addresses asked: more than a group has.
const ASKED_COUNT_MAX: usize = 32;

/// The metadata servers, as the one that leads sees the group, or, while none does, as the one that knows most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub members: Vec<Member>,
    /// Rises with each election.
    pub term: u64,
    /// True if one of them leads and a majority says so.
    pub led: bool,
    /// Index of the last log entry.
    pub last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub addr: String,
    /// `leader`, `standby`, or `learner` for one without a vote.
    pub role: &'static str,
    /// It answered.
    pub up: bool,
    /// Index of the last log entry that the leader knows it has.
    pub matched: Option<u64>,
}

impl Admin {
    /// Asks every server, also those that only another one knows of.
    pub async fn members(&self) -> Result<Group> {
        let scope = self.store.scope();
        scope.check()?;
        let (mut answers, mut asked, mut failure) = (Vec::new(), BTreeSet::new(), None);
        let mut addrs: Vec<String> = self.store.url().authority.split(',').map(str::to_owned).collect();
        while !addrs.is_empty() {
            let news = addrs.into_iter().filter(|addr| asked.len() < ASKED_COUNT_MAX && asked.insert(addr.clone()));
            let asking: Vec<_> = news
                .map(|addr| {
                    scope.spawn("list of members", list(addr, self.user.clone(), self.store.metad_options(&self.user)))
                })
                .collect();
            addrs = Vec::new();
            for asked in asking {
                match asked.await.flatten() {
                    Ok(answer) => {
                        addrs.extend(answer.members.iter().map(|member| member.addr.clone()));
                        answers.push(answer);
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
        let up: BTreeSet<u64> = answers.iter().map(|answer| answer.id).collect();
        let best = answers.into_iter().max_by_key(|answer| (answer.leads, answer.term, answer.last));
        let Some(best) = best else {
            return Err(failure.unwrap_or_else(|| Error::TimedOut { addr: self.store.url().authority.clone() }));
        };
        let role = |member: &wire::admin::meta::Member| match member.role() {
            MemberRole::Leader if best.leads => "leader",
            MemberRole::Leader | MemberRole::Standby => "standby",
            MemberRole::Learner => "learner",
        };
        let members = best.members.iter().map(|member| Member {
            role: role(member),
            up: up.contains(&member.id),
            id: member.id,
            addr: member.addr.clone(),
            matched: member.matched,
        });
        Ok(Group { members: members.collect(), term: best.term, last: best.last, led: best.leads })
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

async fn list(addr: String, user: String, options: rpc::ClientOptions) -> Result<ListMembersResponse> {
    let options = rpc::ClientOptions { connect_time_max: LIST_WAIT, call_time_max: LIST_WAIT, ..options };
    let rpc = rpc::Client::with_options(addr, user, wire::admin::ADMIN_PROTOCOL, options);
    let answer = rpc.call(LIST_MEMBERS, &ListMembersRequest {}).await;
    answer.map_err(|error| Error::of_call(rpc.addr(), error))
}
