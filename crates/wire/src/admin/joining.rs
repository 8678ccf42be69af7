//! Invitations of datanodes, and the end of their certificates.

pub use crate::proto::{
    Invitation, InviteRequest, InviteResponse, ListInvitationsRequest, ListInvitationsResponse, RevokeRequest,
    RevokeResponse, WithdrawRequest, WithdrawResponse,
};

pub const INVITE: &str = "inviteDatanode";
pub const LIST_INVITATIONS: &str = "listInvitations";
pub const WITHDRAW: &str = "withdrawInvitation";
pub const REVOKE: &str = "revokeCertificates";
