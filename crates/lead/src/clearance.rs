//! Deletion of surplus replicas: other nodes confirm the block first.
//!
//! ```text
//! Surplus::next ──▶ begin ──▶ (the namespace) on_found ──▶ members of the home are asked
//!                                                               └──▶ on_answers: deleted, kept, or not surplus
//! ```
//!
//! Promise: a replica of the block's current generation is deleted only if as many members confirmed it as the
//! replication asks. A stale one is deleted only if one member confirmed the block. In both cases the membership must
//! still be the one that was asked.

use crate::compare_answer::Answers;
use crate::repair_context::RepairContext;
use crate::replica_fate::ReportedReplica;
use namespace::BlockView;
use std::collections::{BTreeMap, BTreeSet};
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Epoch, Fitness, NodeId};

/// Replicas of one container asked about at a time.
const PAGE_COUNT: usize = 1000;

/// The surplus replicas of a container, while they are asked about.
#[derive(Clone, Debug)]
pub struct Clearance {
    home: ContainerId,
    kept: Vec<(NodeId, ReportedReplica)>,
    found: BTreeMap<BlockId, Option<BlockView>>,
    asked: Vec<BlockView>,
    before: Option<Set>,
}

/// The nodes that should have the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    epoch: Epoch,
    members: Vec<NodeId>,
    wanted: u16,
}

fn set_of(home: ContainerId, context: &RepairContext<'_>) -> Option<Set> {
    let row = &context.cluster.pipeline(context.cluster.container(home)?.pipeline)?.row;
    let wanted = row.wanted;
    Some(Set { epoch: row.epoch, members: row.members.clone(), wanted })
}

/// A replica that others have made needless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared {
    pub block: BlockId,
    pub node: NodeId,
    /// Members that have the block.
    pub copies: usize,
}

impl Clearance {
    /// `home` is what [`Surplus::next`](crate::Surplus::next) answered. Whose members are asked is settled before
    /// anything is looked up: who joins in between gets no order for a file that was deleted before.
    pub fn begin(home: ContainerId, context: &mut RepairContext<'_>) -> Self {
        let before = set_of(home, context);
        let kept = context.surplus.next_of(home, PAGE_COUNT);
        Self { home, kept, found: BTreeMap::new(), asked: Vec::new(), before }
    }

    /// Blocks to look up.
    pub fn blocks(&self) -> BTreeSet<BlockId> {
        self.kept.iter().map(|(_, reported)| reported.block).collect()
    }

    /// What the namespace has of them; `None`: no file owns it. Returns the nodes to ask about [`Self::asked`].
    pub fn on_found(
        &mut self,
        found: impl IntoIterator<Item = (BlockId, Option<BlockView>)>,
        context: &RepairContext<'_>,
    ) -> Vec<NodeId> {
        self.found.extend(found);
        // What is being written again is judged when it is complete.
        let here = self.found.values().flatten().filter(|wanted| wanted.complete && wanted.home == self.home);
        self.asked = here.copied().collect();
        context.members_to_ask(self.home)
    }

    /// Blocks that the members are asked for.
    pub fn asked(&self) -> &[BlockView] {
        &self.asked
    }

    /// The members' answers. Returns the replicas to delete.
    pub fn on_answers(self, answers: &Answers, context: &mut RepairContext<'_>) -> Vec<Cleared> {
        let (home, now) = (self.home, context.rules.now);
        if set_of(home, context) != self.before {
            context.surplus.asked(home, now, false);
            return Vec::new();
        }
        let (members, wanted) = match self.before {
            Some(set) => (set.members, set.wanted),
            None => (Vec::new(), context.rules.usual_replication),
        };
        let RepairContext { cluster, repair, surplus, .. } = context;
        assert_eq!(cluster.member_ids(home), members, "the members of {home} that were asked are its members now");
        let places: BTreeMap<BlockId, usize> =
            self.asked.iter().enumerate().map(|(at, wanted)| (wanted.block, at)).collect();
        let mut settled_all = true;
        let mut cleared = Vec::new();
        for (node, reported) in self.kept {
            if !surplus.keeps(home, node, &reported) {
                settled_all = false; // what was reported since is asked about by itself
                continue;
            }
            let Some(at) = places.get(&reported.block).copied() else {
                let found = match self.found.get(&reported.block) {
                    Some(Some(found)) => *found,
                    Some(None) => {
                        // Its file was deleted meanwhile. Only the members of its home get an order for that.
                        surplus.approve_deletion(home, node, reported, now);
                        continue;
                    }
                    None => {
                        settled_all = false; // nobody looked
                        continue;
                    }
                };
                if !found.complete {
                    // Its recovery may end without this one, and its node will not tell of it again.
                    settled_all = false;
                    continue;
                }
                surplus.forget(home, node, reported.block);
                // The block has got another home meanwhile, which the node may be of.
                let belongs = cluster.is_member(found.home, node) && reported.generation >= found.generation;
                if !belongs {
                    surplus.keep(node, reported, found.home, now);
                }
                continue;
            };
            let expected = &self.asked[at];
            let is_old = reported.generation < expected.generation;
            if members.contains(&node) && !is_old {
                surplus.forget(home, node, reported.block);
                continue;
            }
            let has = |id: &NodeId| answers.of(*id, at, expected, repair, surplus) == Some(Fitness::Fit);
            let copies = members.iter().filter(|id| **id != node && has(id)).count();
            // One sound copy of the current generation makes a stale one worthless. A current one is deleted only if
            // there are enough others.
            let enough = if is_old { 1 } else { usize::from(wanted).max(1) };
            if copies >= enough || mutation::is(Mutation::DeleteSurplusUnasked) {
                cleared.push(Cleared { block: reported.block, node, copies });
                surplus.approve_deletion(home, node, reported, now);
            } else {
                settled_all = false;
                repair.doubt(reported.block);
            }
        }
        surplus.asked(home, now, settled_all);
        cleared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, LivenessRules, NodeUsage, Repair, Surplus};
    use blocks::{Command, Node, apply};
    use std::time::Duration;
    use types::rows::MemoryRows;
    use types::{Generation, InodeId, PipelineId};

    const HOME: ContainerId = ContainerId(1);
    const NOW: Duration = Duration::from_secs(100);
    const BLOCK: BlockId = BlockId(HOME.0 << 20);

    fn id(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn reported(generation: u64) -> ReportedReplica {
        let generation = Generation(generation);
        ReportedReplica { block: BLOCK, generation, len: 5, file: None, home: None, finalized: true }
    }

    /// Nodes 1 and 2 hold a container, node 3 told of a replica of its block, of this generation.
    fn kept(generation: u64) -> (MemoryRows, Cluster, Repair, Surplus) {
        let mut rows = MemoryRows::default();
        let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![id(1), id(2)], wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        (1..=3).for_each(|number| cluster.on_registered(NOW, id(number), NodeUsage::default()));
        let mut surplus = Surplus::default();
        surplus.keep(id(3), reported(generation), HOME, NOW);
        assert_eq!(surplus.next(NOW), Some(HOME));
        (rows, cluster, Repair::default(), surplus)
    }

    fn context<'a>(cluster: &'a mut Cluster, repair: &'a mut Repair, surplus: &'a mut Surplus) -> RepairContext<'a> {
        let lost_after = Duration::from_secs(15);
        let rules = LivenessRules { now: NOW, receiving_since: Duration::ZERO, lost_after, usual_replication: 2 };
        RepairContext { cluster, repair, surplus, rules }
    }

    /// The namespace has the block of [`kept`] as `found`. What goes, if the members say this. Nothing is forgotten.
    fn check(generation: u64, found: Option<Option<BlockView>>, said: [Option<Fitness>; 2], goes: usize) {
        let (_, mut cluster, mut repair, mut surplus) = kept(generation);
        let mut context = context(&mut cluster, &mut repair, &mut surplus);
        let mut clearance = Clearance::begin(HOME, &mut context);
        assert_eq!(clearance.blocks(), BTreeSet::from([BLOCK]));
        let nodes = clearance.on_found(found.map(|found| (BLOCK, found)), &context);
        assert_eq!(nodes, [id(1), id(2)]);
        let count = clearance.asked().len();
        let said = said.map(|said| said.map(|said| vec![said; count]));
        let answers = Answers::new(count, nodes.into_iter().zip(said));
        clearance.on_answers(&answers, &mut context);
        assert_eq!(surplus.orders(id(3), NOW).len(), goes, "{generation} {found:?} {answers:?}");
        assert_eq!(surplus.len(), 1 - goes, "{generation} {found:?} {answers:?}");
    }

    /// While the members are asked, the node reports a younger replica, or another node joins them.
    #[test]
    fn what_changes_while_the_members_are_asked_is_asked_about_again() {
        for joins in [false, true] {
            let (mut rows, mut cluster, mut repair, mut surplus) = kept(1004);
            let mut context = context(&mut cluster, &mut repair, &mut surplus);
            let mut clearance = Clearance::begin(HOME, &mut context);
            if joins {
                let members = vec![id(1), id(2), id(3)];
                let epoch = set_of(HOME, &context).unwrap().epoch;
                let command = Command::SetMembers { pipeline: PipelineId(1), epoch, members };
                let reply = apply(&mut rows, &command).unwrap();
                assert!(reply.is_ok());
                context.cluster.on_applied(&command, &reply);
            } else {
                context.surplus.keep(id(3), reported(1005), HOME, NOW);
            }
            clearance.on_found([(BLOCK, None)], &context);
            clearance.on_answers(&Answers::new(0, []), &mut context);
            assert_eq!(surplus.orders(id(3), NOW), [], "a node joins: {joins}");
            assert_eq!(surplus.len(), 1);
        }
    }

    #[test]
    fn a_replica_goes_when_as_many_as_should_have_said_that_they_have_the_block() {
        let (has, lacks) = (Some(Fitness::Fit), Some(Fitness::Absent));
        let generation = Generation(1005);
        let wanted = BlockView {
            block: BLOCK,
            generation,
            len: 5,
            file: InodeId(7),
            home: HOME,
            complete: true,
            offset: 0,
            written_for: None,
        };
        let here = Some(Some(wanted));
        check(1005, here, [has, has], 1);
        for said in [lacks, None, Some(Fitness::Unfit), Some(Fitness::Busy), Some(Fitness::Readable)] {
            check(1005, here, [has, said], 0);
            check(1004, here, [has, said], 1); // an older one
            check(1004, here, [said, said], 0);
        }
        check(1005, Some(None), [lacks, lacks], 1); // of a deleted file
        check(1005, None, [has, has], 0); // nobody looked it up
        let open = BlockView { complete: false, ..wanted };
        check(1005, Some(Some(open)), [has, has], 0);
        check(1005, Some(Some(BlockView { home: ContainerId(2), ..wanted })), [has, has], 0);
    }
}
