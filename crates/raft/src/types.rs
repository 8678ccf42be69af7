//! The types that openraft is told to work with, and their names here. Nothing of openraft leaves this crate.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

openraft::declare_raft_types!(
    /// Commands and replies are opaque to openraft, so one compiled copy of it serves every machine.
    pub(crate) Types:
        D = Command,
        R = Outcome,
        Node = Node,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = crate::runtime::Runtime,
);

pub(crate) type LogId = openraft::alias::LogIdOf<Types>;
pub(crate) type Entry = openraft::alias::EntryOf<Types>;
pub(crate) type Payload = openraft::alias::PayloadOf<Types>;
pub(crate) type Vote = openraft::alias::VoteOf<Types>;
pub(crate) type Membership = openraft::Membership<u64, Node>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
pub(crate) type Snapshot = openraft::alias::SnapshotOf<Types, crate::snapshot::SnapshotData>;

/// A member, as the group's membership names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Where it is reached.
    pub(crate) addr: String,
    /// Of its log: one that comes back without its data has another, and is not meant.
    pub(crate) incarnation: u64,
}

/// A command as it stands in the log: what the leader applies is decoded from these bytes, exactly as on a follower.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command(pub(crate) Arc<[u8]>);

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a command of {} bytes", self.0.len())
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the machine answered, on its way through openraft; `propose` knows what it was.
pub(crate) struct Outcome(pub(crate) Box<dyn Any + Send + Sync>);

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(openraft::vote::leader_id_std::CommittedLeaderId::new(term), index)
}

pub(crate) fn vote(term: u64, node_id: u64, committed: bool) -> Vote {
    if committed { Vote::new_committed(term, node_id) } else { Vote::new(term, node_id) }
}
