//! Who is in the group, as this member sees it.

use crate::types::{Node, Types};
use openraft::metrics::RaftMetrics;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub members: Vec<Member>,
    /// Rises with each election.
    pub term: u64,
    /// Index of this member's last entry.
    pub last: u64,
    pub leader: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Where it is reached; empty for the only member of a store that never had another.
    pub addr: String,
    pub role: Role,
    /// Index of the last entry that it is known to have. Only the leader knows it of others.
    pub matched: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    /// Has a vote, and follows.
    Standby,
    /// Takes part without a vote.
    Learner,
}

impl Group {
    pub(crate) fn of(metrics: &RaftMetrics<Types>) -> Self {
        let membership = metrics.membership_config.membership();
        let matched = |id: u64| {
            if id == metrics.id {
                return metrics.last_log_index;
            }
            metrics.replication.as_ref()?.get(&id)?.as_ref().map(|log_id| log_id.index)
        };
        let role = |id: u64| match () {
            () if metrics.current_leader == Some(id) => Role::Leader,
            () if membership.voter_ids().any(|voter| voter == id) => Role::Standby,
            () => Role::Learner,
        };
        let member = |(id, node): (&u64, &Node)| Member {
            id: *id,
            addr: node.addr.clone(),
            role: role(*id),
            matched: matched(*id),
        };
        Self {
            members: membership.nodes().map(member).collect(),
            term: metrics.current_term,
            last: metrics.last_log_index.unwrap_or(0),
            leader: metrics.current_leader,
        }
    }
}
