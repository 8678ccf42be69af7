//! The caller over one connection: the user, the datanode that registered over it, and whether it is another member's.

use crate::rights::Right;
use blocks::Incarnation;
use namespace::Caller;
use rpc::{Identity, Proof};
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;

/// How long a user's groups are not asked for again: by so much they may be older than their own memory of five
/// minutes lets them be.
const USER_KEPT: Duration = Duration::from_secs(10);

/// The user in whose name calls are made.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) caller: Caller,
    /// To what is no file's.
    pub(crate) right: Option<Right>,
    /// As Kerberos knows the user, with a realm; without it the caller's name.
    pub(crate) name: String,
    /// The user who makes the calls, by the whole name, if it is another one. It is permitted to.
    pub(crate) real: Option<String>,
    /// Of the user who makes the calls.
    pub(crate) proof: Proof,
}

/// The process of a datanode that registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredNode {
    pub(crate) id: NodeId,
    pub(crate) incarnation: Incarnation,
}

/// That messages of another member of the group are taken over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acceptance {
    /// The members' entry by which that was decided.
    pub(crate) members_entry: Option<u64>,
    /// It is from elsewhere: messages are looked at, and not answered.
    pub(crate) is_stranger: bool,
}

/// What is known of the caller over one connection. It begins empty when the connection is accepted, and ends with it.
#[derive(Debug, Default)]
pub(crate) struct Principal {
    user: Option<KnownUser>,
    pub(crate) node: Option<RegisteredNode>,
    pub(crate) member: Option<Acceptance>,
}

#[derive(Debug)]
struct KnownUser {
    /// As the connection's header named it.
    identity: Arc<Identity>,
    user: Arc<User>,
    at: Duration,
}

impl Principal {
    /// The user, if looked up a moment ago, and if the connection still names that user.
    pub(crate) fn user(&self, identity: &Arc<Identity>, now: Duration) -> Option<Arc<User>> {
        let known = self.user.as_ref().filter(|known| now.saturating_sub(known.at) < USER_KEPT)?;
        Arc::ptr_eq(&known.identity, identity).then(|| Arc::clone(&known.user))
    }

    pub(crate) fn set_user(&mut self, identity: &Arc<Identity>, user: &Arc<User>, at: Duration) {
        self.user = Some(KnownUser { identity: Arc::clone(identity), user: Arc::clone(user), at });
    }

    /// The next call asks the user database again.
    pub(crate) fn forget_user(&mut self) {
        self.user = None;
    }
}
