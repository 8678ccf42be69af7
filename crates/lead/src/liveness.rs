//! Liveness rules: when a node counts as lost, and what follows for a pipeline without it.

use crate::member::Member;
use std::time::Duration;
use types::NodeId;

/// Every datanode that is up has registered with a new leader after so long: it tries each second.
const REGISTERED_AFTER: Duration = Duration::from_secs(15);

/// What the decisions rest on beside the picture itself.
#[derive(Clone, Copy, Debug)]
pub struct LivenessRules {
    pub now: Duration,
    /// Since when this process leads and has not stood still, by the same clock: silence before that does not count.
    pub receiving_since: Duration,
    /// A node that was silent for longer is lost.
    pub lost_after: Duration,
    /// Members that a set should have which is not known any more.
    pub usual_replication: u16,
}

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Lost: it was silent for too long.
    Silent,
    /// Lost: nobody takes its certificates any more.
    Revoked,
    Returned,
}

impl LivenessRules {
    /// Whether all nodes that are up have been heard: decisions that need no silence to count may be made.
    pub fn has_heard_all(&self) -> bool {
        self.now.saturating_sub(self.receiving_since) > self.lost_after.min(REGISTERED_AFTER)
    }

    pub fn is_lost(&self, member: Option<&Member>) -> bool {
        // Nobody waits for a node that nobody takes a word of.
        if member.is_some_and(|member| member.revoked) {
            return true;
        }
        if member.is_some_and(|member| member.leave.is_some() && !member.diskless) {
            return false;
        }
        // A node whose disks have all failed says so: it does not come back by itself.
        let is_diskless = member.is_some_and(|member| member.diskless);
        let lost_after = if is_diskless { self.lost_after.min(REGISTERED_AFTER) } else { self.lost_after };
        let seen = member.and_then(Member::seen).unwrap_or_default().max(self.receiving_since);
        self.now.saturating_sub(seen) > lost_after
    }

    pub(crate) fn is_here(&self, member: &Member) -> bool {
        member.is_live(self.now) && member.seen().is_some_and(|seen| self.now.saturating_sub(seen) <= self.lost_after)
    }
}

/// The members without `out` and with `into`.
pub(crate) fn swap(members: &[NodeId], out: Option<NodeId>, into: Option<NodeId>) -> Vec<NodeId> {
    let mut members: Vec<NodeId> = members.iter().copied().filter(|id| Some(*id) != out).chain(into).collect();
    members.sort_unstable();
    members.dedup();
    members
}
