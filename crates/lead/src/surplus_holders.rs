//! Nodes outside of a pipeline that alone are up and have what is in it: each gets a place.
//!
//! ```text
//! members: A silent, B silent     C, outside: all of the containers, as surplus  ──▶  members: A, B, C
//! members: A lost, B lost         C, outside: something of containers 1 and 4    ──▶  of 1 and 4:  A, B, C
//! ```
//!
//! A node that left its pipeline keeps its replicas until the members have confirmed them. If these go before that, it
//! holds the last copies that can be reached, and no reader or copy would come to it. Where the rows were restored from
//! a backup, the members may be nodes that are gone since, and others have taken over from them, container by
//! container.
//!
//! Promise: only nodes that are up are named, for pipelines no whole member of which is up; and who has not everything
//! only where all members are lost. A place costs nothing where the node lacks nothing; the comparison that follows
//! finds out whether that is so.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::liveness::LivenessRules;
use crate::member::Member;
use crate::pipeline::Pipeline;
use crate::repair::Repair;
use crate::surplus::Surplus;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use types::{ContainerId, NodeId, PipelineId};

/// Bytes that a node reported of each container of one pipeline.
type Held = BTreeMap<ContainerId, u128>;

/// Who gets a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) node: NodeId,
    /// In the set of these containers, of which it has something, most of it first. `None`: it has everything.
    pub(crate) containers: Option<Vec<ContainerId>>,
}

impl Cluster {
    /// Of each pipeline without a whole member that is up: the node outside that has everything, if there is one; and
    /// if all members are lost, else the one that has most.
    pub(crate) fn surplus_holders(
        &self,
        repair: &Repair,
        surplus: &Surplus,
        rules: &LivenessRules,
    ) -> BTreeMap<PipelineId, Holder> {
        let is_up = |node: &NodeId| self.node(*node).is_some_and(|member| rules.is_here(member));
        let mut held: BTreeMap<PipelineId, BTreeMap<NodeId, Held>> = BTreeMap::new();
        let mut has_source: BTreeMap<PipelineId, bool> = BTreeMap::new();
        for home in surplus.homes() {
            let Some(id) = self.container(home).map(|container| container.pipeline) else { continue };
            let Some(pipeline) = self.pipeline(id) else { continue };
            if *has_source.entry(id).or_insert_with(|| self.has_source_here(pipeline, rules)) {
                continue;
            }
            for (node, reported) in surplus.kept_in(home) {
                let is_sound = reported.finalized && !repair.is_bad(reported.block, node, reported.generation);
                if is_sound && is_up(&node) && !pipeline.row.members.contains(&node) {
                    let of_node = held.entry(id).or_default().entry(node).or_default();
                    *of_node.entry(home).or_default() += u128::from(reported.len);
                }
            }
        }
        let chosen = held.into_iter().filter_map(|(id, of_nodes)| {
            let pipeline = self.pipeline(id)?;
            let whole = of_nodes.iter().filter(|(node, held)| self.holds_all(pipeline, **node, held, repair, surplus));
            let emptiest = whole.min_by_key(|(node, held)| {
                let used = self.node(**node).map_or(0, Member::used_parts);
                (Reverse(held.values().sum::<u128>()), used, **node)
            });
            let holder = emptiest.map(|(node, _)| Holder { node: *node, containers: None });
            Some((id, holder.or_else(|| self.largest_holder(pipeline, &of_nodes, rules))?))
        });
        chosen.collect()
    }

    /// Who has most of a pipeline, all members of which are lost.
    fn largest_holder(
        &self,
        pipeline: &Pipeline,
        of_nodes: &BTreeMap<NodeId, Held>,
        rules: &LivenessRules,
    ) -> Option<Holder> {
        if !self.are_all_lost(pipeline, rules) {
            return None;
        }
        let (node, held) = of_nodes.iter().max_by_key(|(node, held)| (held.values().sum::<u128>(), Reverse(**node)))?;
        let mut containers: Vec<(&ContainerId, &u128)> = held.iter().collect();
        containers.sort_unstable_by_key(|(home, len)| (Reverse(**len), **home));
        Some(Holder { node: *node, containers: Some(containers.into_iter().map(|(home, _)| *home).collect()) })
    }

    pub(crate) fn are_all_lost(&self, pipeline: &Pipeline, rules: &LivenessRules) -> bool {
        pipeline.row.members.iter().all(|node| rules.is_lost(self.node(*node)))
    }

    /// By lengths, which are counted from the rows. One that reported more than is remembered has room for all of it.
    fn holds_all(&self, pipeline: &Pipeline, node: NodeId, held: &Held, repair: &Repair, surplus: &Surplus) -> bool {
        let lacks = |home: &ContainerId| {
            let len = self.container(*home).map_or(0, Container::held_len);
            held.get(home).copied().unwrap_or_default() < u128::from(len)
        };
        let has_room = || {
            let room = self.node(node).map_or(0, |member| self.room_len(member, repair));
            surplus.is_overflowing(node) && u128::from(room) >= pipeline.len
        };
        !pipeline.containers.iter().any(lacks) || has_room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUsage;
    use crate::first_choice::First;
    use crate::leader::Leader;
    use crate::leader::tests::{HOME, leader, node, reported, rows, rules, run};
    use crate::membership::next_change_with;
    use blocks::Command;
    use std::time::Duration;
    use types::{Epoch, StorageUsage};

    const LATER: Duration = Duration::from_secs(1000);

    /// Node 3 is up, outside, and has these replicas.
    fn with_outsider(rules: &LivenessRules, indexes: &[u32]) -> Leader {
        let mut leader = leader();
        leader.cluster.on_written(HOME, 10); // blocks 0 and 1
        let storage = StorageUsage { free_len: 1 << 40, ..StorageUsage::default() };
        leader.cluster.on_registered(rules.now, node(3), NodeUsage { storage, transfer_count: 0 });
        indexes.iter().for_each(|index| leader.surplus.keep(node(3), reported(*index), HOME, rules.now));
        leader.check();
        leader
    }

    fn next(leader: &Leader, rules: &LivenessRules) -> Option<Command> {
        next_change_with(&leader.cluster, &leader.repair, &leader.surplus, rules, &mut First)
    }

    fn members(epoch: u64, numbers: &[u8]) -> Option<Command> {
        let members = numbers.iter().map(|number| node(*number)).collect();
        Some(Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(epoch), members })
    }

    /// Nodes 1 and 2 are silent, whether they are lost already or not. When all was compared node 3 is a member as
    /// others are, and the lost ones are replaced.
    #[test]
    fn who_alone_is_up_and_has_everything_gets_a_place() {
        let patient = LivenessRules { now: LATER, lost_after: Duration::from_secs(5000), ..rules() };
        let strict = LivenessRules { lost_after: Duration::from_secs(15), ..patient };
        for rules in [patient, strict] {
            let mut leader = with_outsider(&rules, &[0, 1]);
            assert_eq!(next(&leader, &rules), members(1, &[1, 2, 3]));
            let mut rows = rows();
            run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
            assert_eq!(next(&leader, &rules), None, "nobody has compared what it has");
        }
        let mut leader = with_outsider(&strict, &[0, 1]);
        let mut rows = rows();
        run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
        run(&mut rows, &mut leader, &Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] });
        let joined = next(&leader, &strict).unwrap();
        run(&mut rows, &mut leader, &joined);
        assert_eq!(next(&leader, &strict), members(2, &[2, 3]));
    }

    #[test]
    fn who_has_a_part_gets_no_place_while_members_may_come_back() {
        let rules = LivenessRules { now: LATER, lost_after: Duration::from_secs(5000), ..rules() };
        assert_eq!(next(&with_outsider(&rules, &[0]), &rules), None);
        let mut leader = with_outsider(&rules, &[0, 1]);
        leader.repair.on_bad(reported(1).block, node(3), reported(1).generation);
        assert_eq!(next(&leader, &rules), None, "what is damaged does not count");
    }

    /// A backup knows two members that are gone since, and node 3 has a part of what they had: it is copied to as many
    /// as should have it.
    #[test]
    fn what_is_left_of_lost_members_is_repaired() {
        let rules = LivenessRules { now: LATER, ..rules() };
        let mut leader = with_outsider(&rules, &[0]);
        assert_eq!(next(&leader, &rules), members(1, &[1, 2, 3]));
        let mut rows = rows();
        run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
        assert_eq!(next(&leader, &rules), None, "there is no other node");
        run(&mut rows, &mut leader, &Command::Register(blocks::Node::example(4, "/r")));
        let storage = StorageUsage { free_len: 1 << 40, ..StorageUsage::default() };
        leader.cluster.on_registered(rules.now, node(4), NodeUsage { storage, transfer_count: 0 });
        assert_eq!(next(&leader, &rules), members(2, &[1, 2, 3, 4]));
        run(&mut rows, &mut leader, &members(2, &[1, 2, 3, 4]).unwrap());
        assert_eq!(next(&leader, &rules), None, "two have what is left, and the lost ones may come back");
    }

    /// Others have taken over from the lost ones container by container.
    #[test]
    fn who_has_some_of_the_containers_gets_a_place_for_these() {
        let rules = LivenessRules { now: LATER, ..rules() };
        let mut leader = with_outsider(&rules, &[0, 1]);
        let mut rows = rows();
        run(&mut rows, &mut leader, &Command::OpenContainer { pipeline: PipelineId(1) });
        leader.cluster.on_written(ContainerId(2), 10);
        let carve = Command::Carve {
            from: PipelineId(1),
            epoch: Epoch(1),
            containers: vec![HOME],
            members: [1, 2, 3].map(node).to_vec(),
        };
        assert_eq!(next(&leader, &rules), Some(carve.clone()));
        run(&mut rows, &mut leader, &carve);
        assert_eq!(leader.cluster.member_ids(ContainerId(2)), [node(1), node(2)], "nobody else has anything of it");
    }

    #[test]
    fn nobody_gets_a_place_while_a_member_is_up() {
        let rules = LivenessRules { now: LATER, lost_after: Duration::from_secs(5000), ..rules() };
        let mut leader = with_outsider(&rules, &[0, 1]);
        leader.cluster.on_registered(LATER, node(2), NodeUsage::default());
        assert_eq!(next(&leader, &rules), None);
    }
}
