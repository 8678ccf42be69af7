//! Takeover from a lost member: which node takes its place, for how many of its containers.
//!
//! ```text
//! a node has room for all of the pipeline      ──▶ SetMembers: it joins
//! otherwise, while one container fits          ──▶ Carve: as many as fit into the node that takes most, in the
//!                                                  lost one's place; then the next node; the last by SetMembers
//! nothing fits anywhere                        ──▶ a Shortage, in bytes, for users; `make_room` moves another container
//! ```
//!
//! Room is what a node's disks can take down to their reserve, without what is being copied to the node. Parts of a
//! pipeline that end up on the same nodes are merged again when all is copied, so there are few distinct pipelines.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::liveness::{LivenessRules, swap};
use crate::member::Member;
use crate::pipeline::Pipeline;
use crate::repair::Repair;
use blocks::Command;
use blocks::ContainerState;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use types::{ContainerId, Epoch, NodeId, PipelineId, Random};

/// Containers of one command: applying it takes at most a few milliseconds.
const CARVE_COUNT_MAX: usize = 1000;
/// Nodes that take about as much are distinguished by other things: room is compared in so many parts of what is
/// needed.
const FIT_PARTS: u128 = 8;

/// Copies that no node can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// Containers with fewer members than they should have.
    pub container_count: u64,
    /// Bytes that their further copies need on nodes that are up, have none yet and too little room, about.
    pub len: u64,
    /// Of these containers: those that hold something, and for which there is no such node, so that it is not room that
    /// lacks.
    pub nodeless_count: u64,
}

impl Shortage {
    fn new(container_count: usize, len: u128) -> Self {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        Self { container_count: container_count as u64, len, nodeless_count: 0 }
    }

    pub(crate) fn check(&self) {
        assert!(self.len == 0 || self.container_count > 0, "bytes lack room in no container: {self:?}");
        assert!(self.nodeless_count <= self.container_count, "more lack nodes than lack copies: {self:?}");
    }
}

impl AddAssign for Shortage {
    fn add_assign(&mut self, other: Self) {
        self.container_count += other.container_count;
        self.len = self.len.saturating_add(other.len);
        self.nodeless_count += other.nodeless_count;
    }
}

/// A container that is to get another member.
#[derive(Clone, Copy)]
struct Part {
    home: ContainerId,
    len: u64,
    /// New blocks go here, which ends when it is carved: it is taken last.
    is_open: bool,
    /// Members that have not all of it yet.
    lacking_count: usize,
    /// Of its pipeline, when all members had all of it.
    epoch: Epoch,
}

/// Parts that as many members lack, those first that most lack.
fn scarcest_first(parts: impl Iterator<Item = Part>) -> Vec<Vec<Part>> {
    let mut groups: BTreeMap<Reverse<usize>, Vec<Part>> = BTreeMap::new();
    for part in parts {
        groups.entry(Reverse(part.lacking_count)).or_default().push(part);
    }
    groups.into_values().collect()
}

impl Cluster {
    /// Nodes that could join, if they have room: here, in service, and no members.
    pub(crate) fn takers<'a>(
        &'a self,
        pipeline: &'a Pipeline,
        rules: &'a LivenessRules,
    ) -> impl Iterator<Item = &'a Member> {
        self.nodes.values().filter(move |member| {
            let is_member = pipeline.row.members.contains(&member.node.id);
            rules.is_here(member) && member.is_taken(rules.now) && !is_member
        })
    }

    /// Bytes that a node can still take beside what is on its way to it, down to the reserve of its disks.
    pub(crate) fn room_len(&self, member: &Member, repair: &Repair) -> u64 {
        let coming = member.incoming_len.saturating_add(u128::from(repair.lack_len_to(member.node.id)));
        u64::try_from(u128::from(member.usage.free_len).saturating_sub(coming)).unwrap_or_default()
    }

    /// Whether `node` could join, with a container of this length.
    pub(crate) fn can_take(
        &self,
        node: NodeId,
        pipeline: &Pipeline,
        len: u64,
        repair: &Repair,
        rules: &LivenessRules,
    ) -> bool {
        self.takers(pipeline, rules).any(|member| member.node.id == node && self.room_len(member, repair) >= len)
    }

    /// Whether no node can take any of its containers.
    pub(crate) fn is_stuck(&self, pipeline: &Pipeline, repair: &Repair, rules: &LivenessRules) -> bool {
        let lens = pipeline.containers.iter().filter_map(|home| self.containers.get(home)).map(Container::held_len);
        let least = lens.min().unwrap_or_default();
        !self.takers(pipeline, rules).any(|member| self.room_len(member, repair) >= least)
    }

    /// Brings another member into a pipeline, or into as much of it as a node has room for. It takes the place of `out`
    /// if a member is gone.
    pub(crate) fn replace(
        &self,
        id: PipelineId,
        out: Option<NodeId>,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Result<Command, Shortage> {
        let pipeline = &self.pipelines[&id];
        let row = &pipeline.row;
        let stay: Vec<&str> = row.members.iter().map(|id| self.rack(*id)).collect();
        let fits =
            self.takers(pipeline, rules).filter(|member| u128::from(self.room_len(member, repair)) >= pipeline.len);
        // On a rack with few of the others, with few pipelines to join already, with little to do.
        let whole = fits.min_by_key(|member| {
            let same = stay.iter().filter(|rack| **rack == member.node.rack).count();
            (same, self.joins(member.node.id), member.used_permille() / 100, member.load(), random.next_u64())
        });
        if let Some(member) = whole {
            let members = swap(&row.members, out, Some(member.node.id));
            return Ok(Command::SetMembers { pipeline: id, epoch: row.epoch, members });
        }
        let carved = self.carve_scarcest((id, out), self.parts(pipeline), repair, rules, random);
        carved.ok_or_else(|| {
            let here =
                |node: &&NodeId| Some(**node) != out && !self.drains(**node) && !rules.is_lost(self.nodes.get(node));
            let wanted = usize::from(row.wanted);
            let lacking = wanted.saturating_sub(row.members.iter().filter(here).count());
            self.shortage(pipeline, pipeline.containers.len(), pipeline.len.saturating_mul(lacking as u128), rules)
        })
    }

    /// All members from the beginning are lost, and some containers wait for them. Those that are whole on others are
    /// repaired without them.
    pub(crate) fn part(
        &self,
        id: PipelineId,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Option<Result<Command, Shortage>> {
        let pipeline = &self.pipelines[&id];
        let lost = |node: &NodeId| rules.is_lost(self.nodes.get(node));
        let out = pipeline.row.members.iter().copied().find(lost)?;
        let has_source = |part: &Part| pipeline.row.whole_at(part.epoch).iter().any(|node| !lost(node));
        let parts = || self.parts(pipeline).filter(has_source);
        let (count, len) = (parts().count(), parts().map(|part| u128::from(part.len)).sum());
        let carved = self.carve_scarcest((id, Some(out)), parts(), repair, rules, random);
        (count > 0).then(|| carved.ok_or_else(|| self.shortage(pipeline, count, len, rules)))
    }

    /// Of so many containers, whose further copies need so much.
    fn shortage(&self, pipeline: &Pipeline, count: usize, len: u128, rules: &LivenessRules) -> Shortage {
        if self.takers(pipeline, rules).next().is_some() {
            return Shortage::new(count, len);
        }
        let nodeless_count = if len > 0 { count as u64 } else { 0 };
        Shortage { nodeless_count, ..Shortage::new(count, 0) }
    }

    /// Bytes that a node is known to lack, beside its copy orders, and has no room for.
    pub(crate) fn excess_len(&self, node: NodeId, repair: &Repair) -> u64 {
        let free = self.nodes.get(&node).map_or(u64::MAX, |member| member.usage.free_len);
        repair.needed_len_on(node).saturating_sub(free)
    }

    /// A member has less room than it still has to copy: others have written to it, lengths were not known well, or one
    /// of its disks was lost. Some containers move to another node.
    pub(crate) fn unburden(
        &self,
        id: PipelineId,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Option<Result<Command, Shortage>> {
        let members = self.pipelines[&id].row.members.iter().copied();
        let mut lacking = None;
        for out in members.filter(|node| self.excess_len(*node, repair) > 0) {
            match self.unburden_one(id, out, repair, rules, random) {
                Some(Err(shortage)) => lacking = Some(Err(shortage)),
                Some(Ok(command)) => return Some(Ok(command)),
                None => {}
            }
        }
        lacking
    }

    fn unburden_one(
        &self,
        id: PipelineId,
        out: NodeId,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Option<Result<Command, Shortage>> {
        let pipeline = &self.pipelines[&id];
        let lacked = repair.lacked_by(out);
        let parts = self.parts(pipeline).filter(|part| lacked.contains(&part.home));
        let excess = u128::from(self.excess_len(out, repair));
        // Without another member that has all of it, it is unknown whether others have all of it.
        let is_source = |node: &NodeId| *node != out && !rules.is_lost(self.nodes.get(node));
        let groups = scarcest_first(parts);
        let count = groups.first()?.len();
        let carved = groups.into_iter().find_map(|parts| {
            let has_source = pipeline.row.whole_at(parts.first()?.epoch).iter().any(is_source);
            has_source.then(|| self.carve_off((id, Some(out)), parts, excess, repair, rules, random)).flatten()
        });
        Some(carved.ok_or_else(|| Shortage::new(count, excess)))
    }

    fn parts<'a>(&'a self, pipeline: &'a Pipeline) -> impl Iterator<Item = Part> + 'a {
        pipeline.containers.iter().filter_map(|home| {
            let container = self.containers.get(home)?;
            let lacking = pipeline.row.joining.iter().filter(|(_, joined)| *joined > container.epoch);
            let is_open = container.state == ContainerState::Open;
            let (len, lacking_count) = (container.held_len(), lacking.count());
            Some(Part { home: *home, len, is_open, lacking_count, epoch: container.epoch })
        })
    }

    /// As [`Self::carve_off`], of the parts with the fewest whole members of which any finds a node.
    fn carve_scarcest(
        &self,
        from: (PipelineId, Option<NodeId>),
        parts: impl Iterator<Item = Part>,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Option<Command> {
        let mut groups = scarcest_first(parts).into_iter();
        groups.find_map(|parts| self.carve_off(from, parts, u128::MAX, repair, rules, random))
    }

    /// The node that takes most of `parts`, all of which the same members have whole, and what it takes: no more than
    /// makes up `enough`.
    fn carve_off(
        &self,
        (from, out): (PipelineId, Option<NodeId>),
        mut parts: Vec<Part>,
        enough: u128,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> Option<Command> {
        let pipeline = &self.pipelines[&from];
        let row = &pipeline.row;
        let least = parts.iter().map(|part| part.len).min()?;
        let need = parts.iter().map(|part| u128::from(part.len)).sum::<u128>().min(enough).max(1);
        let stay: Vec<&str> = row.members.iter().map(|id| self.rack(*id)).collect();
        let able = self.takers(pipeline, rules).filter(|member| self.room_len(member, repair) >= least);
        let best = able.min_by_key(|member| {
            let id = member.node.id;
            let same = stay.iter().filter(|rack| **rack == member.node.rack).count();
            let fit = u128::from(self.room_len(member, repair)).min(need) * FIT_PARTS / need;
            let is_known = self.by_set.contains_key(&(swap(&row.members, out, Some(id)), row.wanted));
            (
                same,
                Reverse(fit),
                Reverse(is_known),
                self.joins(id),
                Reverse(self.room_len(member, repair)),
                random.next_u64(),
            )
        })?;
        parts.sort_unstable_by_key(|part| (part.is_open, Reverse(part.len), part.home));
        let (mut room, mut taken) = (self.room_len(best, repair), 0u128);
        let mut containers = Vec::new();
        for part in parts {
            if taken >= enough || containers.len() >= CARVE_COUNT_MAX {
                break;
            }
            if part.len <= room {
                room -= part.len;
                taken += u128::from(part.len);
                containers.push(part.home);
            }
        }
        let (epoch, members) = (row.epoch, swap(&row.members, out, Some(best.node.id)));
        if containers.len() == pipeline.containers.len() {
            return Some(Command::SetMembers { pipeline: from, epoch, members });
        }
        Some(Command::Carve { from, epoch, containers, members })
    }

    /// Pipelines that a node joins just now.
    fn joins(&self, node: NodeId) -> usize {
        self.pipelines_of(node).iter().filter(|id| self.pipelines[id].row.is_joining(node)).count()
    }
}
