//! The group of metadata servers: who is in it, who leads.

use prost::Message;

pub const LIST_MEMBERS: &str = "listMembers";
pub const ADD_MEMBER: &str = "addMember";
pub const REMOVE_MEMBER: &str = "removeMember";

#[derive(Clone, PartialEq, Message)]
pub struct ListMembersRequest {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MemberRole {
    /// Has a vote, and follows.
    Standby = 0,
    Leader = 1,
    /// Takes part without a vote: it is catching up, or on its way out.
    Learner = 2,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its RPC port, as host:port.
    #[prost(string, tag = "2")]
    pub addr: String,
    #[prost(enumeration = "MemberRole", tag = "3")]
    pub role: i32,
    /// Index of the last log entry that the leader knows it has; absent if it was not heard yet.
    #[prost(uint64, optional, tag = "4")]
    pub matched: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListMembersResponse {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<Member>,
    /// Of the election that made the leader.
    #[prost(uint64, tag = "2")]
    pub term: u64,
    /// Index of the leader's last log entry.
    #[prost(uint64, tag = "3")]
    pub last: u64,
    /// The server that answers.
    #[prost(uint64, tag = "4")]
    pub id: u64,
    /// It leads, and a majority has just said so.
    #[prost(bool, tag = "5")]
    pub leads: bool,
}

/// The server must have been started, and wait to be added. Asked again it goes on where it was.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AddMemberRequest {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub addr: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AddMemberResponse {
    /// False: the server is still taking over what the others have; ask again.
    #[prost(bool, tag = "1")]
    pub has_vote: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct RemoveMemberRequest {
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct RemoveMemberResponse {}
