//! Periodic work of the leader: audit, lost nodes, removal and sealing of containers, unreachable deletions. Each step
//! is bounded, and the leader keeps where it continues.

use crate::container_sealing::Sealing;
use crate::leader::Leader;
use crate::liveness::{LivenessRules, Turn};
use crate::member::SILENCE_MAX;
use crate::takeover::Shortage;
use std::time::Duration;
use types::{ContainerId, NodeId};

/// Containers looked at in one round of removing, each by three seeks.
const REMOVABLE_COUNT_MAX: usize = 2000;

impl Leader {
    /// Queues containers for comparing, so that all have their turn.
    pub fn audit(&mut self, now: Duration) {
        self.container_audit.step(&self.cluster, &mut self.repair, now);
    }

    /// A node that was lost since this was asked last, or is back. One at a time, to be asked again until there is
    /// none.
    pub fn watch(&mut self, rules: LivenessRules) -> Option<(NodeId, Turn)> {
        let mut lost = std::mem::take(&mut self.lost);
        let changed = self.repair_context(rules).watch(&mut lost);
        self.lost = lost;
        if let Some((node, Turn::Silent | Turn::Revoked)) = changed {
            self.on_lost(node);
        }
        changed
    }

    /// Copies that no node can take, as of the last round of members. Answers what lacked before.
    pub fn on_shortage(&mut self, shortage: Shortage) -> Shortage {
        std::mem::replace(&mut self.shortage, shortage)
    }

    /// Containers that may be empty for good, some at a time; the rows decide.
    pub fn next_removable(&mut self, now: Duration) -> Vec<ContainerId> {
        let Some(homes_on_lease) = self.block_leases.homes(now) else { return Vec::new() };
        let some = self.cluster.removable(self.removal_after, REMOVABLE_COUNT_MAX, &homes_on_lease, &self.doomed);
        assert!(some.len() <= REMOVABLE_COUNT_MAX, "{} containers in one round", some.len());
        self.removal_after = some.last().copied().filter(|_| some.len() == REMOVABLE_COUNT_MAX);
        some
    }

    /// A look at the containers that take no more blocks; `None`: clients may hold blocks of any.
    pub fn begin_sealing(&self, now: Duration) -> Option<Sealing> {
        self.block_leases.homes(now).map(|homes| Sealing::begin(&self.cluster, &homes))
    }

    /// Deletions do not wait for a node that is gone. When it returns, also without having registered anew, it is asked
    /// for its catalogue, which corrects it. This leader has led for `led`: just after it began, all nodes are silent.
    pub fn drop_unreachable(&mut self, led: Duration, now: Duration) {
        if led <= SILENCE_MAX {
            return;
        }
        let is_live = |id| self.cluster.node(id).is_some_and(|member| member.is_live(now));
        let gone: Vec<NodeId> = self.doomed.pending_nodes().filter(|id| !is_live(*id)).collect();
        for node in gone {
            self.doomed.on_lost(node);
            self.surplus.ask_all(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, node, rules};
    use namespace::DoomedBlock;
    use types::Generation;

    #[test]
    fn a_node_that_is_lost_is_told_of_once_and_so_is_its_return() {
        let mut leader = leader();
        let at = |now| LivenessRules { now, ..rules() };
        let later = NOW + rules().lost_after * 2;
        assert_eq!(leader.watch(rules()), None);
        (1..=2).for_each(|number| leader.cluster.on_message(later, node(number)));
        assert_eq!(leader.watch(at(later)), Some((node(3), Turn::Silent)));
        leader.check();
        assert_eq!(leader.watch(at(later)), None, "that is known");
        leader.cluster.on_message(later, node(3));
        assert_eq!((leader.watch(at(later)), leader.watch(at(later))), (Some((node(3), Turn::Returned)), None));
        leader.cluster.on_revoked(node(3));
        assert_eq!(leader.watch(at(later)), Some((node(3), Turn::Revoked)), "though it was heard of just now");
        leader.check();
    }

    #[test]
    fn a_node_that_is_gone_deletes_nothing() {
        let mut leader = leader();
        let later = NOW + SILENCE_MAX * 2;
        leader.cluster.on_message(later, node(1));
        let doomed = DoomedBlock { block: block(1), home: HOME, generation: Generation(5) };
        leader.doomed.feed(doomed, &[node(1), node(2)]);
        leader.drop_unreachable(SILENCE_MAX, later);
        assert_eq!(leader.doomed.pending_nodes().count(), 2, "it has not listened for long enough");
        leader.drop_unreachable(SILENCE_MAX * 2, later);
        assert!(leader.doomed.pending_nodes().eq([node(1)]));
        assert!(leader.surplus.take_ask(node(2)), "it is asked for what it has when it is back");
        leader.check();
    }
}
