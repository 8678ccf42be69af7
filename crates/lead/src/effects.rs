//! Effects of an applied change of the namespace on the leader's state.
//!
//! ```text
//! Raft ──entry──▶ namespace::apply ──Effects──▶ EffectHandler ──▶ deletions owed, lengths claimed, blocks doubted
//!                                                   └──▶ Wakeups: the tasks that have work
//! ```
//!
//! Promise: only this module applies effects to the leader, and it is called when an entry is applied. So no effect is
//! lost where no caller waits for the answer. A new operation only has to note its effects.

use crate::block_leases::BlockLeases;
use crate::cluster::Cluster;
use crate::doomed::Doomed;
use crate::repair::Repair;
use namespace::{Doubt, DoubtCause, Effects, Written};
use std::time::Duration;
use types::mutation::{self, Mutation};

/// The parts of the leader that a change of the namespace concerns.
#[derive(Debug)]
pub struct EffectHandler<'a> {
    pub cluster: &'a mut Cluster,
    pub doomed: &'a mut Doomed,
    pub repair: &'a mut Repair,
    pub block_leases: &'a BlockLeases,
}

/// Which of the leader's rounds have work now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakeups {
    /// There is something to free.
    pub deletion: bool,
    /// There is something to compare or to move.
    pub repair: bool,
}

impl EffectHandler<'_> {
    pub fn on_effects(&mut self, effects: &Effects, now: Duration) -> Wakeups {
        let Effects { has_doomed_tree, doomed, written, doubts, has_resized, left_safe_mode } = effects;
        effects.doomed.iter().for_each(|doomed| self.repair.end_moving(doomed.block));
        let has_room = self.doomed.has_room();
        if has_room {
            for block in doomed {
                self.doomed.feed(*block, self.cluster.member_ids(block.home));
            }
        } else if !doomed.is_empty() {
            self.doomed.reload(); // the rows tell of them
        }
        for Written { block, home, len, grown } in written {
            self.cluster.on_claimed_len(now, *home, (*block, *len), *grown);
        }
        let mut is_doubtful = false;
        for doubt in doubts {
            if self.may_lack(doubt, now) {
                self.repair.doubt(doubt.block);
                is_doubtful = true;
            }
        }
        Wakeups {
            deletion: *has_doomed_tree || !doomed.is_empty() || *left_safe_mode,
            repair: is_doubtful || *has_resized || *left_safe_mode,
        }
    }

    /// Whether some member of its home may lack the block.
    fn may_lack(&self, doubt: &Doubt, now: Duration) -> bool {
        let is_short = self.cluster.is_short(doubt.home, now);
        match doubt.cause {
            DoubtCause::Leased if mutation::is(Mutation::ForgetShortPuts) => false,
            DoubtCause::Completed => is_short,
            // Members that came to its home since the lease began have no replica; nor have late ones. It is compared
            // when it is complete. Leases of an earlier leader are unknown.
            DoubtCause::Leased => {
                let put = self.block_leases.put_of(doubt.block);
                let is_known = put.is_some_and(|put| {
                    !put.is_short && put.home.set.is_some_and(|set| self.cluster.is_held_by(doubt.home, set))
                });
                is_short || !is_known
            }
            // Members that did not take part, or had too little, copy it from the others.
            DoubtCause::Recovered => true,
            // Its home may have been marked whole before it moved there. It stays doubtful until it is complete.
            DoubtCause::Moved => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_leases::{Grant, LeasedFor, LeasedHome};
    use crate::{NodeUsage, QUIET_MAX};
    use blocks::{Command, Node};
    use namespace::DoomedBlock;
    use types::rows::{MemoryRows, RowsMut};
    use types::{BlockId, ContainerId, Generation, InodeId, NodeId, PipelineId};

    const HOME: ContainerId = ContainerId(1);
    const NOW: Duration = Duration::from_secs(1);

    struct Leader {
        cluster: Cluster,
        doomed: Doomed,
        repair: Repair,
        block_leases: BlockLeases,
    }

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    /// Two nodes hold a container. Block 0 is on lease to `a`.
    fn leader() -> Leader {
        let (mut rows, members) = (MemoryRows::default(), vec![node(1), node(2)]);
        let mut commands: Vec<Command> = (1..=2).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members, wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.iter().for_each(|command| _ = blocks::apply(&mut rows, command).unwrap().unwrap());
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        (1..=2).for_each(|number| cluster.on_registered(NOW, node(number), NodeUsage::default()));
        rows.put(namespace::tables::RESERVED, &[], vec![0; 8]);
        let mut block_leases = BlockLeases::load(&rows, NOW, Duration::from_secs(60)).unwrap();
        block_leases.reserved(InodeId(50), 10, Generation(1001));
        let home = LeasedHome { container: HOME, set: cluster.set_of(HOME, &[node(1), node(2)]) };
        block_leases.grant("a", home, &[block(0)], None, NOW).unwrap();
        Leader { cluster, doomed: Doomed::default(), repair: Repair::default(), block_leases }
    }

    impl Leader {
        fn tell(&mut self, effects: &Effects, now: Duration) -> Wakeups {
            let Self { cluster, doomed, repair, block_leases } = self;
            let wakes = EffectHandler { cluster, doomed, repair, block_leases }.on_effects(effects, now);
            self.cluster.check();
            wakes
        }

        /// Whether a block is doubted after that.
        fn doubts(&mut self, index: u32, cause: DoubtCause, now: Duration) -> bool {
            let doubts = vec![Doubt { block: block(index), home: HOME, cause }];
            let wakes = self.tell(&Effects { doubts, ..Effects::default() }, now);
            let is_doubted = self.repair.take_doubts(10) == [block(index)];
            assert_eq!(wakes, Wakeups { repair: is_doubted, ..Wakeups::default() });
            is_doubted
        }

        fn put(&mut self, is_short: bool) {
            let grant = Grant { block: block(0), file: InodeId(50) };
            self.block_leases.begin_put("a", (grant, LeasedFor::NewFile), is_short, false, NOW).unwrap();
        }
    }

    #[test]
    fn a_block_is_doubted_if_some_member_may_lack_it() {
        let mut leader = leader();
        assert!(!leader.doubts(1, DoubtCause::Completed, NOW));
        assert!(leader.doubts(1, DoubtCause::Recovered, NOW));
        assert!(leader.doubts(1, DoubtCause::Moved, NOW), "who came before it is whole, and not in its chain");
        let later = NOW + QUIET_MAX * 10;
        assert!(leader.doubts(1, DoubtCause::Completed, later), "its nodes report no more");
    }

    #[test]
    fn a_block_from_a_lease_is_doubted_unless_its_nodes_are_known() {
        let mut leader = leader();
        assert!(leader.doubts(9, DoubtCause::Leased, NOW), "another leader gave it out");
        assert!(leader.doubts(0, DoubtCause::Leased, NOW), "nobody puts it here");
        leader.put(false);
        assert!(!leader.doubts(0, DoubtCause::Leased, NOW));
        leader.put(true);
        assert!(leader.doubts(0, DoubtCause::Leased, NOW), "its writer says that a node was late");
        leader.put(false);
        assert!(leader.doubts(0, DoubtCause::Leased, NOW), "its first attempt may be what was applied");
    }

    #[test]
    fn what_is_doomed_is_owed_until_there_are_too_many() {
        let mut leader = leader();
        let doomed = |indexes: std::ops::Range<u32>| Effects {
            doomed: indexes
                .map(|index| DoomedBlock { block: block(index), home: HOME, generation: Generation(1) })
                .collect(),
            ..Effects::default()
        };
        let page = leader.doomed.next_page().unwrap();
        leader.doomed.on_page(page, &[], &leader.cluster);
        assert_eq!(leader.doomed.next_page(), None, "all rows were read");
        let wakes = leader.tell(&doomed(0..60_000), NOW);
        assert_eq!(wakes, Wakeups { deletion: true, ..Wakeups::default() });
        assert!(!leader.doomed.has_room());
        leader.tell(&doomed(60_000..60_001), NOW);
        assert_eq!(leader.doomed.len(), 60_000);
        leader.doomed.take_forgettable(usize::MAX);
        (1..=2).for_each(|number| leader.doomed.on_lost(node(number)));
        leader.doomed.take_forgettable(usize::MAX);
        assert_eq!(leader.doomed.next_page().map(|page| page.after), Some(None), "its row tells of it");
    }

    #[test]
    fn what_waits_for_a_round_wakes_it() {
        let mut leader = leader();
        let both = Wakeups { deletion: true, repair: true };
        for (effects, wakes) in [
            (Effects { has_doomed_tree: true, ..Effects::default() }, Wakeups { deletion: true, ..Wakeups::default() }),
            (Effects { has_resized: true, ..Effects::default() }, Wakeups { repair: true, ..Wakeups::default() }),
            (Effects { left_safe_mode: true, ..Effects::default() }, both),
            (Effects::default(), Wakeups::default()),
        ] {
            assert_eq!(leader.tell(&effects, NOW), wakes, "{effects:?}");
        }
    }

    #[test]
    fn a_written_length_is_a_claim_until_nodes_confirm_it() {
        let mut leader = leader();
        let written = vec![Written { block: block(1), home: HOME, len: 100, grown: 70 }];
        leader.tell(&Effects { written, ..Effects::default() }, NOW);
        assert_eq!(leader.cluster.unconfirmed_len(), 70);
    }
}
