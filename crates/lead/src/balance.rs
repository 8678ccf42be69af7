//! Plan of container moves that make the nodes about equally full.
//!
//! ```text
//! the fullest node ── a container that an emptier node does not have ──▶ Carve: a pipeline of its own,
//!                     with the emptier node as one more member
//!                     (it copies; when it is whole, `membership` removes the fullest member)
//! ```
//!
//! Promise: each move makes the fuller of two nodes emptier and leaves the receiver emptier than the giver was. No
//! container ends up in fewer racks. All decisions of a plan use one snapshot of disk usage, so moves under way are not
//! counted twice. A plan is made in steps of bounded work, since there may be a million pairs of nodes.

use crate::cluster::Cluster;
use crate::fullness::{FULL_PARTS, parts};
use crate::liveness::{LivenessRules, swap};
use crate::repair::Repair;
use blocks::Command;
use std::collections::{BTreeMap, BTreeSet};
use types::{ContainerId, NodeId, PipelineId, StorageUsage};

/// Moves of one plan; what is left is for the next.
const MOVE_COUNT_MAX: usize = 500;
/// Pairs of nodes, and containers of pipelines that are met for the first time, looked at in one step, about.
const LOOK_COUNT_MAX: usize = 2000;
/// One container goes from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub container: ContainerId,
    pub from: NodeId,
    pub to: NodeId,
    /// About.
    pub len: u64,
}

/// A node's disk, as the plan sees it change.
#[derive(Clone, Copy, Debug)]
struct Disk {
    used: u64,
    whole: u64,
}

impl Disk {
    fn full(&self) -> u64 {
        parts(self.used, self.whole)
    }
}

/// A container that could move.
type Choice = (u64, ContainerId, PipelineId);

/// A plan in the making.
#[derive(Debug)]
pub struct BalancePlan {
    within: u64,
    /// Of all nodes together, which moves leave as it is.
    mean: u64,
    disks: BTreeMap<NodeId, Disk>,
    /// Nodes by fullness.
    order: BTreeSet<(u64, NodeId)>,
    /// Nodes from which no move helps. They only become emptier, and others fuller, so that stays so.
    exhausted: BTreeSet<NodeId>,
    /// The fullest that is not exhausted, and the last one that could take nothing of it.
    turn: Option<(NodeId, Option<(u64, NodeId)>)>,
    /// Containers by length, of the pipelines met so far, without those that were given a move.
    by_len: BTreeMap<PipelineId, BTreeSet<(u64, ContainerId)>>,
    look_count: usize,
    moves: Vec<Move>,
}

impl BalancePlan {
    /// Moves after which no node's fullness differs from the mean by more than `within` (of [`FULL_PARTS`]), or after
    /// which none helps any more.
    pub fn begin(cluster: &Cluster, rules: &LivenessRules, within: u64) -> Self {
        let serving = cluster.nodes.values().filter(|member| rules.is_here(member) && member.is_taken(rules.now));
        let disk =
            |usage: StorageUsage| Disk { used: usage.used_len, whole: usage.used_len.saturating_add(usage.free_len) };
        let disks: BTreeMap<NodeId, Disk> = serving.map(|member| (member.node.id, disk(member.usage))).collect();
        let (used, whole) = disks.values().fold((0u64, 0u64), |(used, whole), disk| {
            (used.saturating_add(disk.used), whole.saturating_add(disk.whole))
        });
        let order = disks.iter().map(|(node, disk)| (disk.full(), *node)).collect();
        let (mean, by_len) = (parts(used, whole), BTreeMap::new());
        Self {
            within,
            mean,
            disks,
            order,
            exhausted: BTreeSet::new(),
            turn: None,
            by_len,
            look_count: 0,
            moves: Vec::new(),
        }
    }

    /// Goes on for a bounded while. True: the plan is made.
    pub fn step(&mut self, cluster: &Cluster) -> bool {
        let until = self.look_count + LOOK_COUNT_MAX;
        while self.look_count < until {
            self.look_count += 1;
            if self.moves.len() >= MOVE_COUNT_MAX {
                return true;
            }
            let Some(from) = self.source() else { return true };
            let Some(to) = self.target(from) else {
                self.exhausted.insert(from);
                self.turn = None;
                continue;
            };
            let full = self.disks[&to].full();
            match self.container_to_move(cluster, from, to) {
                Some(next) => self.take(next),
                None => self.turn = Some((from, Some((full, to)))),
            }
        }
        false
    }

    pub fn into_moves(self) -> Vec<Move> {
        self.moves
    }

    fn source(&self) -> Option<NodeId> {
        if let Some((from, _)) = self.turn {
            return Some(from);
        }
        self.order.iter().rev().map(|(_, node)| *node).find(|node| !self.exhausted.contains(node))
    }

    /// The emptiest that was not passed over for this one.
    fn target(&self, from: NodeId) -> Option<NodeId> {
        let full = self.disks[&from].full();
        let passed = self.turn.and_then(|(_, passed)| passed);
        let behind = passed.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let (empty, to) = self.order.range((behind, std::ops::Bound::Unbounded)).next()?;
        let needed = full > self.mean.saturating_add(self.within) || empty.saturating_add(self.within) < self.mean;
        (empty < &full && needed).then_some(*to)
    }

    fn take(&mut self, next: Move) {
        let giver = self.disks[&next.from].full();
        for (node, gets) in [(next.from, false), (next.to, true)] {
            let Some(disk) = self.disks.get_mut(&node) else { continue };
            self.order.remove(&(disk.full(), node));
            let used = disk.used;
            disk.used = if gets { used.saturating_add(next.len) } else { used.saturating_sub(next.len) };
            self.order.insert((disk.full(), node));
        }
        let receiver = self.disks[&next.to].full();
        assert!(receiver < giver, "{} is as full after the move as {} was: {receiver}, {giver}", next.to, next.from);
        // All nodes have their turn again, the fullest first.
        self.turn = None;
        self.moves.push(next);
    }

    /// The largest that does not carry the one below the mean, or the other above it; otherwise the smallest that still
    /// helps.
    fn container_to_move(&mut self, cluster: &Cluster, from: NodeId, to: NodeId) -> Option<Move> {
        let (source, target) = (self.disks[&from], self.disks[&to]);
        let spare =
            |disk: Disk| (u128::from(self.mean) * u128::from(disk.whole)).div_ceil(u128::from(FULL_PARTS)) as u64;
        // Bytes that bring the one up, or the other down, to the mean.
        let gentle_max = spare(target).saturating_sub(target.used).min(source.used.saturating_sub(spare(source)));
        let (mut gentle, mut least): (Option<Choice>, Option<Choice>) = (None, None);
        for id in cluster.pipelines_of(from) {
            let Some(pipeline) = cluster.pipelines.get(id) else { continue };
            let row = &pipeline.row;
            if !row.joining.is_empty() || row.members.contains(&to) || !cluster.keeps_racks(&row.members, from, to) {
                continue;
            }
            let by_len = self.by_len.entry(*id).or_insert_with(|| {
                self.look_count += pipeline.containers.len();
                let lens = pipeline
                    .containers
                    .iter()
                    .filter_map(|home| Some((cluster.containers.get(home)?.held_len(), *home)));
                lens.filter(|(len, _)| *len > 0).collect()
            });
            let of_this = |(len, home): &(u64, ContainerId)| (*len, *home, *id);
            gentle = gentle.max(by_len.range(..=(gentle_max, ContainerId(u64::MAX))).next_back().map(of_this));
            least = least.into_iter().chain(by_len.first().map(of_this)).min();
        }
        // They would only change places.
        let helps = |(len, ..): &Choice| parts(target.used.saturating_add(*len), target.whole) < source.full();
        let (len, container, pipeline) = gentle.filter(helps).or(least.filter(helps))?;
        self.by_len.entry(pipeline).or_default().remove(&(len, container));
        Some(Move { container, from, to, len })
    }
}

impl Cluster {
    pub(crate) fn keeps_racks(&self, members: &[NodeId], from: NodeId, to: NodeId) -> bool {
        let racks =
            |nodes: &mut dyn Iterator<Item = NodeId>| nodes.map(|node| self.rack(node)).collect::<BTreeSet<_>>().len();
        let before = racks(&mut members.iter().copied());
        let mut after = members.iter().copied().filter(|node| *node != from).chain([to]);
        racks(&mut after) >= before
    }

    /// The command that begins a move; `None` if it is not possible any more.
    pub fn begin_move(&self, next: &Move, repair: &Repair, rules: &LivenessRules) -> Option<Command> {
        let from = self.containers.get(&next.container)?.pipeline;
        let pipeline = self.pipelines.get(&from)?;
        let row = &pipeline.row;
        let able = self.can_take(next.to, pipeline, self.containers[&next.container].held_len(), repair, rules);
        let fits = row.joining.is_empty() && row.members.contains(&next.from) && able;
        fits.then(|| {
            let members = swap(&row.members, None, Some(next.to));
            Command::Carve { from, epoch: row.epoch, containers: vec![next.container], members }
        })
    }

    /// True once the container is whole on as many nodes as it should be, and on no more.
    pub fn has_moved(&self, next: &Move) -> bool {
        let Some(pipeline) = self.pipeline_of(next.container).and_then(|id| self.pipelines.get(&id)) else {
            return true;
        };
        let row = &pipeline.row;
        row.joining.is_empty() && row.members.len() <= usize::from(row.wanted)
    }

    fn pipeline_of(&self, home: ContainerId) -> Option<PipelineId> {
        self.containers.get(&home).map(|container| container.pipeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::first_choice::First;
    use crate::member::NodeUsage;
    use crate::membership::next_change;
    use blocks::{Node, apply};
    use std::time::Duration;
    use types::StorageUsage;
    use types::rows::MemoryRows;

    const SECOND: Duration = Duration::from_secs(1);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// Nodes 1, 2 have three containers of 100 and one of 700 of a thousand; node 3 has nothing.
    fn world() -> (MemoryRows, Cluster, LivenessRules) {
        let mut rows = MemoryRows::default();
        let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![node(1), node(2)], wanted: 2, planned: true });
        for (number, len) in [(1, 100 << 30), (2, 100 << 30), (3, 100 << 30), (4, 700 << 30)] {
            commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
            commands.push(Command::LeaseIndexes { container: ContainerId(number), from: 0, up_to: 10, lessee: 1, len });
        }
        commands.iter().for_each(|command| {
            apply(&mut rows, command).unwrap().unwrap();
        });
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        for (number, used) in [(1, 1000), (2, 1000), (3, 0)] {
            let usage = NodeUsage {
                storage: StorageUsage {
                    used_len: used << 30,
                    free_len: (2000 - used) << 30,
                    ..StorageUsage::default()
                },
                transfer_count: 0,
            };
            cluster.on_registered(20 * SECOND, node(number), usage);
        }
        let rules = LivenessRules {
            now: 20 * SECOND,
            receiving_since: Duration::ZERO,
            lost_after: 15 * SECOND,
            usual_replication: 3,
        };
        (rows, cluster, rules)
    }

    fn moves(cluster: &Cluster, rules: &LivenessRules, within: u64) -> Vec<Move> {
        let mut balancing = BalancePlan::begin(cluster, rules, within);
        while !balancing.step(cluster) {}
        balancing.into_moves()
    }

    #[test]
    fn the_emptiest_takes_what_brings_all_nearer_to_the_mean() {
        let (_, cluster, rules) = world();
        let plan = moves(&cluster, &rules, FULL_PARTS / 100);
        assert!(plan.iter().all(|next| next.to == node(3)), "{plan:?}");
        let moved: u64 = plan.iter().map(|next| next.len >> 30).sum();
        // 667 each would be even; the large one changes places only.
        assert!((300..=700).contains(&moved), "{plan:?}");
        let mut seen = BTreeSet::new();
        assert!(plan.iter().all(|next| seen.insert(next.container)), "no container twice");
        assert_eq!(moves(&cluster, &rules, FULL_PARTS), [], "nobody asked for so much evenness");
    }

    #[test]
    fn a_moved_container_has_a_set_of_its_own_until_all_is_copied() {
        let (mut rows, mut cluster, rules) = world();
        let next = Move { container: ContainerId(1), from: node(1), to: node(3), len: 1 };
        let mut run = |cluster: &mut Cluster, command: &Command| {
            let reply = apply(&mut rows, command).unwrap();
            assert!(reply.is_ok(), "{command:?}: {reply:?}");
            cluster.on_applied(command, &reply);
        };
        let carve = cluster.begin_move(&next, &Repair::default(), &rules).unwrap();
        run(&mut cluster, &carve);
        assert_eq!(cluster.member_ids(ContainerId(1)), [node(1), node(2), node(3)]);
        assert_eq!(cluster.member_ids(ContainerId(2)), [node(1), node(2)], "the others stay");
        assert!(!cluster.is_whole(ContainerId(1), node(3)) && !cluster.has_moved(&next));
        assert!(cluster.begin_move(&next, &Repair::default(), &rules).is_none(), "it is under way");
        assert_eq!(next_change(&cluster, &rules, &mut First), None, "nobody goes before all is copied");
        run(&mut cluster, &Command::Whole { containers: vec![(ContainerId(1), PipelineId(2), types::Epoch(2))] });
        while let Some(command) = next_change(&cluster, &rules, &mut First) {
            run(&mut cluster, &command);
        }
        assert!(cluster.has_moved(&next));
        assert_eq!(cluster.member_ids(ContainerId(1)).len(), 2);
        assert!(cluster.is_member(ContainerId(1), node(3)));
        let again = Cluster::load(&rows, 1).unwrap();
        assert_eq!(again.member_ids(ContainerId(1)), cluster.member_ids(ContainerId(1)), "the rows say the same");
    }
}
