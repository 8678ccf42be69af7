//! Verification of a reported replica: what the node's answer means for the complaint and for repair.

use crate::leader::Leader;
use namespace::BlockView;
use std::time::Duration;
use types::{BlockId, Fitness, NodeId};

/// What is known of a replica after its node was asked to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Its checksums match.
    Sound { was_damaged: bool },
    /// Its checksums do not match.
    Damaged,
    /// The node does not have it, or only on a disk that failed for everything but reads.
    Absent,
    /// The block's file was deleted.
    Deleted,
    /// The node did not answer, or could not verify the replica. It is asked again.
    Unknown,
}

impl Verified {
    /// Whether repair has work now.
    pub fn wakes_repair(self) -> bool {
        match self {
            Self::Sound { .. } | Self::Damaged | Self::Absent => true,
            Self::Deleted | Self::Unknown => false,
        }
    }
}

impl Leader {
    /// `node` was asked to verify its replica of `block`, which is `view` by the rows, and answered `fitness`. `view`
    /// is `None` if no file has the block any more; `fitness` is `None` if no answer came in time.
    pub fn on_verified(
        &mut self,
        block: BlockId,
        node: NodeId,
        view: Option<&BlockView>,
        fitness: Option<Fitness>,
        now: Duration,
    ) -> Verified {
        assert!(view.is_none_or(|view| view.block == block), "{block} is verified by the row of another block");
        let verified = match (view, fitness) {
            // The node may be another one by now, which never reports the deletion.
            (None, _) => {
                self.repair.forget_block(block);
                Verified::Deleted
            }
            (Some(_), None | Some(Fitness::Busy)) => Verified::Unknown,
            (Some(_), Some(Fitness::Fit)) => {
                self.complaints.on_verified(block, node, now);
                Verified::Sound { was_damaged: self.repair.on_verified(block, node) }
            }
            (Some(_), Some(Fitness::Absent | Fitness::Readable)) => {
                self.repair.forget_bad(block, node);
                self.repair.doubt(block);
                Verified::Absent
            }
            (Some(view), Some(Fitness::Unfit)) => {
                self.repair.on_bad(block, node, view.generation);
                Verified::Damaged
            }
        };
        match verified {
            Verified::Unknown => self.complaints.on_unread(block, node, now),
            _ => self.complaints.on_read(block, node),
        }
        verified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::complaints::Complainant;
    use crate::leader::tests::{NOW, block, leader, node, view};
    use types::Generation;

    /// A complaint about block 1 on node 1, and the node's answer.
    fn verified(leader: &mut Leader, view: Option<&BlockView>, fitness: Option<Fitness>) -> Verified {
        let by = Complainant::Client("10.0.0.1".into());
        leader.complaints.note(block(1), node(1), by, NOW);
        assert_eq!(leader.complaints.take(NOW, |_| true), Some((block(1), node(1))));
        let verified = leader.on_verified(block(1), node(1), view, fitness, NOW);
        leader.check();
        verified
    }

    #[test]
    fn a_damaged_replica_that_verifies_later_is_sound_again() {
        let mut leader = leader();
        let view = view(1);
        assert_eq!(verified(&mut leader, Some(&view), Some(Fitness::Unfit)), Verified::Damaged);
        assert!(leader.repair.is_bad(block(1), node(1), Generation(1005)));
        assert_eq!(verified(&mut leader, Some(&view), Some(Fitness::Fit)), Verified::Sound { was_damaged: true });
        assert!(!leader.repair.is_bad(block(1), node(1), Generation(1005)));
        let again = Complainant::Client("10.0.0.2".into());
        assert!(!leader.complaints.note(block(1), node(1), again, NOW), "it was just verified");
    }

    #[test]
    fn a_replica_that_is_absent_has_its_block_compared() {
        for fitness in [Fitness::Absent, Fitness::Readable] {
            let mut leader = leader();
            assert_eq!(verified(&mut leader, Some(&view(1)), Some(fitness)), Verified::Absent);
            assert_eq!(leader.repair.take_doubts(9), [block(1)]);
        }
    }

    /// It is not known how the replica is, so the complaint stands.
    #[test]
    fn a_node_that_cannot_say_is_asked_again() {
        for fitness in [None, Some(Fitness::Busy)] {
            let mut leader = leader();
            let verified = verified(&mut leader, Some(&view(1)), fitness);
            assert_eq!((verified, verified.wakes_repair()), (Verified::Unknown, false));
            assert_eq!(leader.complaints.len(), 1);
            assert_eq!(leader.complaints.take(NOW, |_| true), None, "not at once");
        }
    }

    #[test]
    fn a_deleted_block_ends_the_complaint() {
        let mut leader = leader();
        assert_eq!(verified(&mut leader, Some(&view(1)), Some(Fitness::Unfit)), Verified::Damaged);
        assert_eq!(verified(&mut leader, None, None), Verified::Deleted);
        assert!(!leader.repair.is_bad(block(1), node(1), Generation(1005)) && leader.complaints.is_empty());
    }
}
