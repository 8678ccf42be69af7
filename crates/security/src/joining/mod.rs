//! How a datanode that has no certificate comes to one: by an invitation, once. And how a certificate ends before its
//! time.
//!
//! ```text
//! administrator ── invite ──▶ leader ── Invite ──▶ Raft ──▶ rows        JoinToken: shown once, and kept nowhere
//! datanode ── token, public key ──▶ leader ── Take ─▶ Raft ──▶ rows     a certificate
//! administrator ── revoke ──▶ leader ── Revoke ──▶ Raft ──▶ rows        certificates from before that do not count
//! ```
//!
//! Promise: [`apply`] is a function of rows and command, as that of [`crate::rings`]. Of a token the rows have a hash:
//! who reads them cannot join by it. An invitation is for one key of one datanode: whoever asks again with the same
//! key, as the answer was lost, is answered the same; who comes with another key is refused. A revocation ends the
//! invitations of its datanode, and is later than all that the store signed for it.

mod command;
#[cfg(test)]
mod golden;
mod row;
mod token;

pub(crate) use command::drop_open;
pub use command::{Command, INVITATION_COUNT_MAX, JoinError, apply, usable};
pub use row::{INVITATION, Invitation, REVOKED, Taken, invitation, invitations, revoked_before};
pub use token::{JoinToken, TokenError};

/// What rows hold, as a function of bytes, for fuzz targets. Whatever the bytes are, it does not panic.
#[doc(hidden)]
pub fn row_of(bytes: &[u8]) {
    if let Ok(invitation) = row::decode::<Invitation>(bytes) {
        let again = row::encode(&invitation);
        assert!(row::decode::<Invitation>(&again).is_ok_and(|read| read == invitation));
    }
}
