//! The leader's picture together with its repair state: the input of decisions about missing and surplus replicas.
//!
//! ```text
//!              the shell: rows, questions, the log                        decided here
//!   Comparison   pages of a container, digests, lists of members    ──▶   lacks, doubts, is it whole
//!   Resizing     pages of a file, lists of old and new members      ──▶   lacks, blocks that may move
//!   Clearance    rows of surplus blocks, lists of members           ──▶   replicas that may be deleted
//! ```
//!
//! Nothing here waits or calls a node: the same answers lead to the same orders.

use crate::cluster::Cluster;
use crate::compare_answer::Answers;
use crate::liveness::{LivenessRules, Turn};
use crate::member::Member;
use crate::repair::Repair;
use crate::surplus::Surplus;
use blocks::Command;
use blocks::Service;
use namespace::BlockView;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, NodeId};

#[derive(Debug)]
pub struct RepairContext<'a> {
    pub cluster: &'a mut Cluster,
    pub repair: &'a mut Repair,
    pub surplus: &'a mut Surplus,
    pub rules: LivenessRules,
}

impl RepairContext<'_> {
    /// Members of a container that can be asked.
    pub fn members_to_ask(&self, home: ContainerId) -> Vec<NodeId> {
        self.cluster.askable(&self.rules, self.cluster.member_ids(home).iter().copied())
    }

    /// Answers about single doubtful blocks. Where an answer is missing, they stay doubtful.
    pub fn on_doubted(&mut self, blocks: &[BlockView], members: &[NodeId], answers: &Answers) {
        if self.on_list(blocks, members, answers).unanswered > 0 {
            blocks.iter().for_each(|wanted| self.repair.doubt(wanted.block));
        }
    }

    /// `node` reports that its replica of a block is damaged. It counts if the node should have one, or has reported
    /// one: a block that it has nothing to do with would take the place of another in what is remembered. `may_be_put`:
    /// the block is on lease, and has no file yet.
    pub fn on_bad_reported(
        &mut self,
        (block, generation): (BlockId, Generation),
        node: NodeId,
        wanted: Option<&BlockView>,
        may_be_put: bool,
    ) {
        let may_hold = |home| self.cluster.may_hold(home, node);
        let counts = match wanted {
            None => may_be_put,
            // Its chain may have nodes that its home has not yet.
            Some(wanted) if !wanted.complete => true,
            Some(wanted) => {
                may_hold(wanted.home)
                    || self.repair.moving_to(block).is_some_and(may_hold)
                    || self.surplus.holds(block, node)
            }
        };
        if counts {
            self.repair.on_bad(block, node, generation);
        }
    }

    /// A node that was lost since `known`, or returned. Its containers are compared, as no other node may have a copy
    /// of some blocks, which is then reported, or withdrawn. One node at a time: call again until there is none.
    pub fn watch(&mut self, known: &mut BTreeSet<NodeId>) -> Option<(NodeId, Turn)> {
        // Bytes that writers claimed and no node has must not keep the rest of the pipeline from being copied.
        for block in self.cluster.take_overdue(self.rules.now) {
            self.repair.doubt(block);
        }
        self.repair.forget_unnamed(|home| self.cluster.container(home).is_none());
        self.cluster.set_missing(self.repair.missing_lens());
        let changed = self.cluster.nodes().find_map(|member| {
            let (node, lost) = (member.node.id, self.rules.is_lost(Some(member)));
            let turn = match lost {
                false => Turn::Returned,
                true if member.revoked => Turn::Revoked,
                true => Turn::Silent,
            };
            (known.contains(&node) != lost).then_some((node, turn))
        });
        let (node, turn) = changed?;
        let now = self.rules.now;
        if turn == Turn::Returned {
            known.remove(&node);
        } else {
            known.insert(node);
            self.repair.on_lost(node, now);
        }
        for pipeline in self.cluster.pipelines_of(node) {
            self.cluster.containers_of(*pipeline).for_each(|home| self.repair.suspect(home, now));
        }
        changed
    }

    /// `command` gave containers other members. Their replicas are compared, copies to former members are cancelled,
    /// and former members are asked for a catalogue. `before` are the members they had.
    pub fn on_members(&mut self, command: &Command, before: &[NodeId]) {
        let (containers, members) = match command {
            Command::SetMembers { pipeline, members, .. } => {
                (self.cluster.containers_of(*pipeline).collect::<BTreeSet<_>>(), members)
            }
            Command::Carve { containers, members, .. } => (containers.iter().copied().collect(), members),
            _ => return,
        };
        let now = self.rules.now;
        for node in before.iter().filter(|id| !members.contains(id)) {
            let serves = |member: &Member| member.service == Service::Serving && !self.rules.is_lost(Some(member));
            if self.cluster.node(*node).is_some_and(serves) {
                containers.iter().for_each(|home| self.repair.on_relieved(*home, *node));
            }
            self.repair.on_left(*node, &containers, now);
            self.surplus.ask_all(*node);
        }
        containers.into_iter().for_each(|home| self.repair.on_members(home, now));
    }
}

impl Cluster {
    /// Of `nodes` those that sent heartbeats and are not lost.
    pub fn askable(&self, rules: &LivenessRules, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let members = nodes.into_iter().filter_map(|id| self.node(id));
        let here = members.filter(|member| member.seen().is_some() && !rules.is_lost(Some(member)));
        here.map(|member| member.node.id).collect()
    }

    /// A member may lack what is written in `home` now: the members change, or one is silent.
    pub fn is_short(&self, home: ContainerId, now: Duration) -> bool {
        let members = self.members(home);
        members.iter().any(|member| !member.is_live(now) || !self.is_whole(home, member.node.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUsage;
    use crate::first_choice::First;
    use crate::membership::next_change;
    use crate::replica_fate::ReportedReplica;
    use blocks::{Node, apply};
    use types::Fitness;
    use types::rows::MemoryRows;
    use types::{InodeId, PipelineId, StorageUsage};

    const SECOND: Duration = Duration::from_secs(1);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// A writer completed its block with a terabyte that it never wrote. Of the three members one is lost, and the node
    /// that is left has room for what the others really have.
    #[test]
    fn a_length_that_no_node_has_keeps_nobody_from_being_healed() {
        let (mut rows, home) = (MemoryRows::default(), ContainerId(1));
        let mut commands: Vec<Command> = (1..=4).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![node(1), node(2), node(3)], wanted: 3, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        let usage = NodeUsage {
            storage: StorageUsage { used_len: 10 << 30, free_len: 100 << 30, ..StorageUsage::default() },
            transfer_count: 0,
        };
        for (number, seen) in [(1, 100), (2, 100), (3, 0), (4, 100)] {
            cluster.on_registered(seen * SECOND, node(number), usage);
        }
        let rules = LivenessRules {
            now: 100 * SECOND,
            receiving_since: Duration::ZERO,
            lost_after: 15 * SECOND,
            usual_replication: 3,
        };
        let (lie, truth) = (1 << 40, 1 << 30);
        cluster.on_written(home, lie);
        cluster.on_written(home, truth);
        let block = |index, len| BlockView {
            block: BlockId::new(home, index),
            generation: Generation(1),
            len,
            file: InodeId(20_000),
            home,
            complete: true,
            written_for: None,
            offset: 0,
        };
        let (blocks, members) = ([block(1, lie), block(2, truth)], [node(1), node(2)]);
        let (mut repair, mut surplus, mut known) = (Repair::default(), Surplus::default(), BTreeSet::new());
        let mut context = RepairContext { cluster: &mut cluster, repair: &mut repair, surplus: &mut surplus, rules };
        assert_eq!(context.watch(&mut known), Some((node(3), Turn::Silent)));
        assert_eq!(next_change(context.cluster, &rules, &mut First), None, "it is believed until somebody was asked");
        let said = |id| (id, Some(vec![Fitness::Unfit, Fitness::Fit]));
        let answers = Answers::new(blocks.len(), members.map(said));
        context.on_doubted(&blocks, &members, &answers);
        context.watch(&mut known);
        let members = vec![node(1), node(2), node(4)];
        let expected = Command::SetMembers { pipeline: PipelineId(1), epoch: types::Epoch(1), members };
        assert_eq!(next_change(context.cluster, &rules, &mut First), Some(expected));
        // Somebody brought it after all.
        context.repair.found(blocks[0].block);
        context.watch(&mut known);
        assert_eq!(next_change(context.cluster, &rules, &mut First), None);
    }

    /// A node reports damage to blocks that it has nothing to do with, and then to all that it could have: neither
    /// keeps the damage that others find from being remembered.
    #[test]
    fn a_node_reports_damage_to_what_it_holds_and_no_more_than_its_share() {
        let (mut rows, home) = (MemoryRows::default(), ContainerId(1));
        let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![node(1), node(2)], wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        let now = 100 * SECOND;
        let rules =
            LivenessRules { now, receiving_since: Duration::ZERO, lost_after: 15 * SECOND, usual_replication: 3 };
        let (mut repair, mut surplus) = (Repair::default(), Surplus::default());
        let generation = Generation(5);
        let surplus_one = BlockId::new(home, 7);
        let reported =
            ReportedReplica { block: surplus_one, generation, len: 1, file: None, home: None, finalized: true };
        surplus.keep(node(3), reported, home, now);
        let mut context = RepairContext { cluster: &mut cluster, repair: &mut repair, surplus: &mut surplus, rules };
        let wanted = BlockView {
            file: InodeId(20_000),
            generation,
            home,
            complete: true,
            block: BlockId(0),
            len: 0,
            offset: 0,
            written_for: None,
        };
        let open = BlockView { complete: false, ..wanted };
        let mut counts = |number, block: BlockId, wanted: Option<&BlockView>, may_be_put| {
            context.on_bad_reported((block, generation), node(number), wanted, may_be_put);
            context.repair.is_bad(block, node(number), generation)
        };
        let block = |index: u32| BlockId::new(home, index);
        assert!(!counts(3, block(0), Some(&wanted), false), "it belongs to others");
        assert!(!counts(1, block(1), None, false), "no file has it");
        assert!(counts(1, block(0), Some(&wanted), false));
        assert!(counts(3, surplus_one, Some(&wanted), false), "it has reported that it has it");
        assert!(
            counts(3, block(2), Some(&open), false) && counts(3, block(3), None, true),
            "its chain may be elsewhere"
        );
        let of_one = (0..200_000).filter(|index| counts(1, block(*index), Some(&wanted), false)).count();
        assert!(of_one < 100_000 / 3, "{of_one}");
        assert!(counts(2, block(300_000), Some(&wanted), false), "there is a place left for others");
        let later = Generation(6);
        context.on_bad_reported((block(0), later), node(1), Some(&wanted), false);
        assert!(context.repair.is_bad(block(0), node(1), later), "one that is known");
        context.repair.forget_bad(block(0), node(1));
        context.on_bad_reported((block(300_001), generation), node(1), Some(&wanted), false);
        assert!(context.repair.is_bad(block(300_001), node(1), generation), "one was replaced");
    }
}
