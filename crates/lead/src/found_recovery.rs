//! Recovery of a found block that nobody had finished when its rows were lost: the length that its replicas get, so
//! that it can be read.
//!
//! Promise: nothing that was acknowledged is cut off. No row says which generation counts: the youngest does, since
//! each change of a chain raises it, and its members have every acknowledged byte unless a restart damaged them.
//! Nothing becomes surplus: replicas that are left out stay, and are listed.

use crate::block_recovery::{FencedReplica, RecoveryPlan, was_left_behind};
use crate::cluster::Cluster;
use namespace::BlockView;
use types::{NodeId, ReplicaState};

impl Cluster {
    /// Whom the recovery of a found block asks, with their addresses. `owner`: what a file has of the block, where it
    /// was appended to after the backup. Members of its home have the file's replicas, and are left alone.
    pub fn asked_of_found(&self, owner: Option<&BlockView>) -> Vec<(NodeId, String)> {
        let is_asked = |node: NodeId| owner.is_none_or(|owner| !self.is_member(owner.home, node));
        let nodes = self.nodes().map(|member| &member.node).filter(|node| is_asked(node.id));
        nodes.map(|node| (node.id, node.ipc_addr())).collect()
    }
}

/// What the block becomes, if any datanode shows bytes of it.
pub fn agree_on_found(shown: &[FencedReplica]) -> Option<RecoveryPlan> {
    // A copy that was not ended says nothing.
    let told: Vec<FencedReplica> = shown.iter().filter(|one| one.state != ReplicaState::Copying).copied().collect();
    let youngest = told.iter().map(|one| one.generation).max()?;
    let (old, usable): (Vec<&FencedReplica>, Vec<&FencedReplica>) =
        told.iter().partition(|one| was_left_behind(one, &told));
    let of_youngest = || usable.iter().filter(|one| one.generation == youngest);
    let best_state = of_youngest().map(|one| one.state).max()?;
    // What was put was acknowledged before the block was opened again; whoever has less has none of what came then.
    let put_len = old.iter().filter(|one| one.generation == youngest).map(|one| one.len).max().unwrap_or(0);
    let of_best = of_youngest().filter(|one| one.state == best_state && one.len >= put_len);
    let len = match best_state {
        // Of several that were put none is longer: the others would have been left behind.
        ReplicaState::Finalized | ReplicaState::Open => {
            of_best.map(|one| one.len).min().or_else(|| of_youngest().map(|one| one.len).max())?
        }
        // Each may lack acknowledged bytes, and the youngest chain may never have come about: the longest has them.
        ReplicaState::WaitingForRecovery | ReplicaState::Copying => usable.iter().map(|one| one.len).max()?,
    };
    if len == 0 {
        return None;
    }
    let takes_part = |one: &&&FencedReplica| {
        let is_of_chain = one.generation == youngest || best_state == ReplicaState::WaitingForRecovery;
        is_of_chain && one.len >= len
    };
    let nodes: Vec<_> = usable.iter().filter(takes_part).map(|one| one.node).collect();
    assert!(!nodes.is_empty(), "a length that some replica has");
    Some(RecoveryPlan { len, nodes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{leader, node, view};
    use ReplicaState::{Copying, Finalized, Open, WaitingForRecovery};
    use types::Generation;

    /// Replicas on nodes 1, 2, …
    fn agreed(replicas: &[(ReplicaState, u64, u64)]) -> Option<(u64, Vec<u8>)> {
        let shown = replicas.iter().zip(1..).map(|((state, generation, len), number)| FencedReplica {
            node: NodeId([number; 16]),
            state: *state,
            generation: Generation(*generation),
            len: *len,
        });
        let plan = agree_on_found(&shown.collect::<Vec<_>>())?;
        Some((plan.len, plan.nodes.iter().map(|node| node.0[0]).collect()))
    }

    #[test]
    fn open_replicas_meet_at_the_shortest_of_the_youngest_chain() {
        assert_eq!(agreed(&[(Open, 10, 700), (Open, 10, 500), (Open, 10, 600)]), Some((500, vec![1, 2, 3])));
        assert_eq!(agreed(&[(Open, 10, 100), (Open, 11, 800), (Open, 11, 900)]), Some((800, vec![2, 3])));
        assert_eq!(agreed(&[(Open, 10, 700), (WaitingForRecovery, 10, 300), (Copying, 12, 50)]), Some((700, vec![1])));
    }

    /// Node 1 has what was put before it was opened again elsewhere.
    #[test]
    fn what_was_put_before_an_append_does_not_shorten_it() {
        assert_eq!(agreed(&[(Finalized, 10, 500), (Open, 11, 800)]), Some((800, vec![2])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (Open, 10, 800)]), Some((800, vec![2])));
        assert_eq!(agreed(&[(Finalized, 10, 900), (Open, 10, 900), (Open, 10, 700)]), Some((900, vec![1, 2])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (Open, 10, 800), (Open, 10, 400)]), Some((800, vec![2])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (Open, 10, 800), (Open, 10, 600)]), Some((600, vec![2, 3])));
    }

    /// The append was flushed, and its nodes were restarted: they have all of it, and nobody else.
    #[test]
    fn what_was_put_before_an_append_does_not_cut_it_after_a_restart() {
        assert_eq!(agreed(&[(Finalized, 10, 500), (WaitingForRecovery, 10, 800)]), Some((800, vec![2])));
        let fell = [(Finalized, 10, 500), (WaitingForRecovery, 10, 800), (WaitingForRecovery, 10, 700)];
        assert_eq!(agreed(&fell), Some((800, vec![2])));
        let one_never_ended =
            [(Finalized, 9, 900), (Finalized, 10, 500), (WaitingForRecovery, 10, 800), (Open, 10, 400)];
        assert_eq!(agreed(&one_never_ended), Some((800, vec![3])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (Finalized, 10, 600)]), Some((600, vec![2])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (WaitingForRecovery, 10, 300)]), Some((500, vec![1])));
        assert_eq!(agreed(&[(Finalized, 10, 500), (Copying, 10, 800)]), Some((500, vec![1])));
    }

    /// A node that went on alone and fell may have less than others that fell before.
    #[test]
    fn of_replicas_that_all_fell_the_longest_counts() {
        assert_eq!(agreed(&[(WaitingForRecovery, 11, 64), (WaitingForRecovery, 10, 75)]), Some((75, vec![2])));
        assert_eq!(agreed(&[(WaitingForRecovery, 11, 80), (Open, 10, 50)]), Some((80, vec![1])));
        assert_eq!(agreed(&[(WaitingForRecovery, 11, 80), (Open, 10, 90)]), Some((90, vec![2])));
    }

    /// The last block of a file was appended to, and its row is of the time before.
    #[test]
    fn replicas_of_a_file_that_is_known_take_no_part() {
        let leader = leader();
        let asked = |owner: Option<&BlockView>| {
            leader.cluster.asked_of_found(owner).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(asked(None), [node(1), node(2), node(3)]);
        assert_eq!(asked(Some(&view(1))), [node(3)]);
    }

    #[test]
    fn where_no_byte_is_left_nothing_is_agreed() {
        assert_eq!(agreed(&[]), None);
        assert_eq!(agreed(&[(Open, 10, 0), (Copying, 10, 5)]), None);
    }
}
