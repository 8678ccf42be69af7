//! The group of metadata servers: who is in it, who leads.

pub use crate::proto::{
    AddMemberRequest, AddMemberResponse, GroupMember as Member, ListMembersRequest, ListMembersResponse, MemberRole,
    RemoveMemberRequest, RemoveMemberResponse,
};

pub const LIST_MEMBERS: &str = "listMembers";
pub const ADD_MEMBER: &str = "addMember";
pub const REMOVE_MEMBER: &str = "removeMember";
