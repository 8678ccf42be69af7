//! Changes of pipelines' members: lost members are replaced, short pipelines completed, draining nodes relieved.
//!
//! ```text
//!            lost a member ──▶ another takes its place ─┐
//!   short of members ────────▶ one more joins ──────────┼──▶ joining: copies the containers ──▶ whole ──▶ joined
//!   a member drains ─────────▶ one more joins ──────────┘          │                                │
//!                                                                  │            a draining or excess member is removed
//!                                                                  └── the lost one returned: it is put
//!                                                                      back, and the copying ends
//! ```
//!
//! Promise: no node counts as lost before this process has received heartbeats for as long as a node may be silent. So
//! no decision follows from the picture at a start. A container whose whole members are all lost keeps them, since only
//! they have its blocks. The other containers of its pipeline are carved off and repaired. No live member is removed
//! before all containers are whole on the remaining ones, and as many of those as there should be are up. Where no
//! whole member is up, a node outside that has everything as surplus gets a place; where all are lost, one that has
//! something. Then as many others join as there should be copies of what is left, and the lost ones stay members, as
//! they may have the rest. A node in maintenance is not
//! relieved: another one joins only where all whole members are in maintenance, and stays until that is over. While
//! repair is held nothing changes. One command is proposed at a time, and the picture is read again after each.

use crate::cluster::Cluster;
use crate::liveness::{LivenessRules, swap};
use crate::member::Member;
use crate::pipeline::Pipeline;
use crate::repair::Repair;
use crate::surplus::Surplus;
use crate::surplus_holders::Holder;
use crate::takeover::Shortage;
use blocks::Command;
use blocks::{PipelineRow, Service};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::mutation::{self, Mutation};
use types::{ContainerId, NodeId, PipelineId, Random};

/// Pipelines looked at in one step of a round. One look may go over all nodes and over the containers of one pipeline.
const LOOK_COUNT_MAX: usize = 16;

/// Containers that one command merges: applying it takes a few milliseconds.
const MERGE_COUNT_MAX: usize = 1000;

/// A round over all pipelines that are not as they should be, those with the fewest whole members first: they get what
/// room there is.
#[derive(Debug, Default)]
pub struct MembershipRound {
    waiting: VecDeque<PipelineId>,
    shortage: Shortage,
    /// The first that finds no room. Room is made for it, by one move at a time.
    stuck: Option<PipelineId>,
    /// Nodes that get a place back, as they alone are up and have what is left.
    holders: BTreeMap<PipelineId, Holder>,
}

/// What one step of a round came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To be put through Raft and shown to [`Cluster::on_applied`] before the next step.
    Propose(Command),
    /// There is more to look at.
    Again,
    /// All were looked at. What could not be mended for want of room.
    Done(Shortage),
}

/// What one pipeline needs.
enum PipelineNeed {
    Settled,
    Lacks(Shortage),
    Change(Command),
}

impl From<Result<Command, Shortage>> for PipelineNeed {
    fn from(found: Result<Command, Shortage>) -> Self {
        found.map_or_else(Self::Lacks, Self::Change)
    }
}

impl MembershipRound {
    pub fn begin(cluster: &Cluster, repair: &Repair, surplus: &Surplus, rules: &LivenessRules) -> Self {
        if !rules.has_heard_all() || cluster.repair_hold.is_some() {
            return Self::default();
        }
        let gone = |member: &&Member| {
            let may_need_cover = member.is_in_maintenance();
            rules.is_lost(Some(member)) || member.service == Service::Draining || may_need_cover
        };
        let mut waiting: BTreeSet<PipelineId> = cluster
            .nodes
            .values()
            .filter(gone)
            .flat_map(|member| cluster.pipelines_of(member.node.id).iter().copied())
            .collect();
        let burdened = cluster.nodes.keys().filter(|node| cluster.excess_len(**node, repair) > 0);
        waiting.extend(burdened.flat_map(|node| cluster.pipelines_of(*node)));
        let holders = cluster.surplus_holders(repair, surplus, rules);
        waiting.extend(holders.keys());
        let worklists = &cluster.worklists;
        waiting.extend(worklists.joining.iter().chain(&worklists.uneven).chain(&worklists.twins));
        let mut order: Vec<(usize, PipelineId)> =
            waiting.into_iter().map(|id| (cluster.source_count(&cluster.pipelines[&id], rules), id)).collect();
        order.sort_unstable();
        Self { waiting: order.into_iter().map(|(_, id)| id).collect(), holders, ..Self::default() }
    }

    /// Looks at some more. A pipeline whose change was proposed is looked at again.
    pub fn step(&mut self, cluster: &Cluster, repair: &Repair, rules: &LivenessRules, random: &mut dyn Random) -> Step {
        for _ in 0..LOOK_COUNT_MAX {
            let Some(id) = self.waiting.front() else {
                let stuck = self.stuck.take().filter(|_| !cluster.is_moving());
                let room = stuck.and_then(|id| cluster.make_room(id, repair, rules));
                return room.map_or(Step::Done(self.shortage), Step::Propose);
            };
            match cluster.look(*id, self.holders.get(id), repair, rules, random) {
                PipelineNeed::Settled => {}
                PipelineNeed::Lacks(shortage) => {
                    self.shortage += shortage;
                    self.stuck.get_or_insert(*id);
                }
                PipelineNeed::Change(command) => return Step::Propose(command),
            }
            self.waiting.pop_front();
        }
        Step::Again
    }

    /// The change that was proposed is not made: the pipeline has its turn in the next round.
    pub fn pass(&mut self) {
        self.waiting.pop_front();
    }
}

impl Cluster {
    /// Blocks of a pipeline are on its whole members. If none of them is live, no copy can be made, and they are waited
    /// for. Where no container lags, joining members are whole as well, also while one of them is lost.
    fn source_count(&self, pipeline: &Pipeline, rules: &LivenessRules) -> usize {
        let is_whole = |node: &NodeId| pipeline.lagging_count == 0 || !pipeline.row.is_joining(*node);
        let sources = pipeline.row.members.iter().filter(|node| is_whole(node) && !rules.is_lost(self.nodes.get(node)));
        sources.count()
    }

    /// Whether a whole member is up, so that all blocks can be read.
    pub(crate) fn has_source_here(&self, pipeline: &Pipeline, rules: &LivenessRules) -> bool {
        let is_whole = |node: &NodeId| pipeline.lagging_count == 0 || !pipeline.row.is_joining(*node);
        let is_up = |node: &NodeId| self.nodes.get(node).is_some_and(|member| rules.is_here(member));
        pipeline.row.members.iter().any(|node| is_whole(node) && is_up(node))
    }

    /// `holder`: a node that was up and had what is left when no whole member was, as the round began.
    fn look(
        &self,
        id: PipelineId,
        holder: Option<&Holder>,
        repair: &Repair,
        rules: &LivenessRules,
        random: &mut dyn Random,
    ) -> PipelineNeed {
        let Some(pipeline) = self.pipelines.get(&id) else { return PipelineNeed::Settled };
        let row = &pipeline.row;
        let set = |members: Vec<NodeId>| {
            PipelineNeed::Change(Command::SetMembers { pipeline: id, epoch: row.epoch, members })
        };
        let lost = |node: &NodeId| rules.is_lost(self.nodes.get(node));
        let wanted = usize::from(row.wanted);
        let has_copied = pipeline.lagging_count == 0 || mutation::is(Mutation::JoinUncopied);
        if !row.joining.is_empty() && has_copied && !row.joining.iter().any(|(node, _)| lost(node)) {
            return PipelineNeed::Change(Command::Joined { pipeline: id, epoch: row.epoch });
        }
        if let Some(back) = self.returned(pipeline, repair, rules) {
            // The member that joined last has copied least; but it may be all that is up.
            let out = row.members.iter().copied().find(lost).or_else(|| {
                let joined = row.joining.iter().max_by_key(|(_, epoch)| *epoch);
                let is_read = |node: &NodeId| !row.is_joining(*node) && self.is_up(*node, rules);
                joined.map(|(node, _)| *node).filter(|_| row.members.iter().any(is_read))
            });
            return set(swap(&row.members, out.filter(|_| row.members.len() >= wanted), Some(back)));
        }
        let is_needed = |node: &NodeId| !row.members.contains(node) && !self.has_source_here(pipeline, rules);
        if let Some(holder) = holder.filter(|holder| self.is_up(holder.node, rules) && is_needed(&holder.node)) {
            match &holder.containers {
                None => return set(swap(&row.members, None, Some(holder.node))),
                Some(held) if self.are_all_lost(pipeline, rules) => {
                    if let Some(command) = self.give_place(id, holder.node, held) {
                        return PipelineNeed::Change(command);
                    }
                }
                Some(_) => {}
            }
        }
        if self.source_count(pipeline, rules) == 0 {
            // All came later. Some may have all of a container since then, and others no room for it.
            let parted = self.part(id, repair, rules, random).or_else(|| self.unburden(id, repair, rules, random));
            return parted.map_or_else(|| self.spread(id, repair, rules, random), PipelineNeed::from);
        }
        // One that never had all ends no copying.
        let joining = |node: &NodeId| row.is_joining(*node);
        let lost_joining = row.members.iter().copied().find(|node| lost(node) && joining(node));
        if let Some(gone) = lost_joining.or_else(|| row.members.iter().copied().find(lost)) {
            if row.members.len() > wanted && (joining(&gone) || row.joining.is_empty()) {
                return set(swap(&row.members, Some(gone), None));
            }
            let stays = |node: &&NodeId| !lost(node) && !self.drains(**node);
            if row.members.iter().filter(stays).count() < wanted {
                return self.replace(id, Some(gone), repair, rules, random).into();
            }
            // Joining members take its place, if they have room.
            return self.unburden(id, repair, rules, random).map_or(PipelineNeed::Settled, PipelineNeed::from);
        }
        if self.staying(row) < wanted || self.needs_cover(row, rules) {
            return self.replace(id, None, repair, rules, random).into();
        }
        if let Some(found) = self.unburden(id, repair, rules, random) {
            return found.into();
        }
        if !row.joining.is_empty() {
            return PipelineNeed::Settled;
        }
        if row.members.len() > wanted {
            // Who came for the time of a maintenance stays until it is over.
            if row.members.iter().any(|node| self.is_in_maintenance(*node)) {
                return PipelineNeed::Settled;
            }
            let draining = row.members.iter().copied().find(|node| self.drains(*node));
            let out = draining.or_else(|| self.fullest(&row.members));
            let Some(out) = out.filter(|out| self.can_spare(pipeline, *out, repair, rules)) else {
                return PipelineNeed::Settled;
            };
            return set(swap(&row.members, Some(out), None));
        }
        let twins = self.by_set.get(&(row.members.clone(), row.wanted)).into_iter().flatten();
        let mut twins = twins.filter(|other| {
            let into = &self.pipelines[other].row;
            **other != id && row.can_merge(into) && (into.planned != row.planned || **other < id)
        });
        twins.next().map_or(PipelineNeed::Settled, |into| {
            let containers = pipeline.containers.iter().copied().take(MERGE_COUNT_MAX).collect();
            PipelineNeed::Change(Command::Merge { from: id, into: *into, containers })
        })
    }

    /// All members that had everything are lost. Of what those have who came since, there are to be as many copies as
    /// of all else: the lost ones may not come back.
    fn spread(&self, id: PipelineId, repair: &Repair, rules: &LivenessRules, random: &mut dyn Random) -> PipelineNeed {
        let row = &self.pipelines[&id].row;
        let lost = |node: &NodeId| rules.is_lost(self.nodes.get(node));
        let here = || row.members.iter().filter(|node| row.is_joining(**node) && !lost(node));
        let staying = here().filter(|node| !self.drains(**node)).count();
        if here().next().is_none() || staying >= usize::from(row.wanted) {
            return PipelineNeed::Settled;
        }
        let out = row.members.iter().copied().find(|node| row.is_joining(*node) && lost(node));
        self.replace(id, out, repair, rules, random).into()
    }

    /// `node` comes into the set of those of `held` that the same members have.
    fn give_place(&self, id: PipelineId, node: NodeId, held: &[ContainerId]) -> Option<Command> {
        let pipeline = &self.pipelines[&id];
        let row = &pipeline.row;
        let whole = |home: &ContainerId| self.containers.get(home).map(|container| row.whole_at(container.epoch));
        let is_here = |home: &&ContainerId| pipeline.containers.contains(*home);
        let first = whole(held.iter().find(is_here)?)?;
        let alike = held.iter().filter(is_here).filter(|home| whole(home).as_ref() == Some(&first));
        let containers: Vec<ContainerId> = alike.copied().take(MERGE_COUNT_MAX).collect();
        let (epoch, members) = (row.epoch, swap(&row.members, None, Some(node)));
        if containers.len() == pipeline.containers.len() {
            return Some(Command::SetMembers { pipeline: id, epoch, members });
        }
        (!first.is_empty()).then_some(Command::Carve { from: id, epoch, containers, members })
    }

    /// It is here, and nothing hints that it goes just now.
    fn is_up(&self, node: NodeId, rules: &LivenessRules) -> bool {
        self.nodes.get(&node).is_some_and(|member| rules.is_here(member) && !member.is_quiet(rules.now))
    }

    /// Whether as many others as there should be are up, and lack nothing that is known of. Those that are silent, and
    /// not lost yet, may not come back: `out` may be the last that can be read from.
    fn can_spare(&self, pipeline: &Pipeline, out: NodeId, repair: &Repair, rules: &LivenessRules) -> bool {
        let lacks = |node: &NodeId| {
            !mutation::is(Mutation::JoinUncopied) && !repair.lacked_by(*node).is_disjoint(&pipeline.containers)
        };
        let serves = |node: &NodeId| self.is_up(*node, rules) && !lacks(node);
        let others = pipeline.row.members.iter().filter(|node| **node != out && serves(node)).count();
        others >= usize::from(pipeline.row.wanted)
    }

    /// For whom a member that drains stays, though as many others as there should be came: those who are silent, and
    /// may have what nobody else has, or who are in maintenance.
    pub(crate) fn awaited(
        &self,
        pipeline: &Pipeline,
        out: NodeId,
        repair: &Repair,
        rules: &LivenessRules,
    ) -> Vec<NodeId> {
        let row = &pipeline.row;
        if !row.members.contains(&out) || self.staying(row) < usize::from(row.wanted) {
            return Vec::new();
        }
        let those = |is: &dyn Fn(NodeId) -> bool| row.members.iter().copied().filter(|node| is(*node)).collect();
        // Then it waits for a copy.
        let lacks = |node: &NodeId| !repair.lacked_by(*node).is_disjoint(&pipeline.containers);
        // Who joined is whole once all members that are not lost were compared.
        if !row.joining.is_empty() {
            return match row.joining.iter().any(|(node, _)| lacks(node)) {
                true => Vec::new(),
                false => those(&|node| node != out && !row.is_joining(node) && !self.is_up(node, rules)),
            };
        }
        let in_maintenance: Vec<NodeId> = those(&|node| self.is_in_maintenance(node));
        if !in_maintenance.is_empty() {
            return in_maintenance;
        }
        let has_lacking = row.members.iter().any(|node| *node != out && self.is_up(*node, rules) && lacks(node));
        match has_lacking || self.can_spare(pipeline, out, repair, rules) {
            true => Vec::new(),
            false => those(&|node| node != out && !self.is_up(node, rules)),
        }
    }

    /// A former member that is back while others still copy what it has.
    fn returned(&self, pipeline: &Pipeline, repair: &Repair, rules: &LivenessRules) -> Option<NodeId> {
        let here = |id: &NodeId| {
            let member = self.nodes.get(id);
            member.is_some_and(|member| rules.is_here(member) && member.is_taken(rules.now))
        };
        let relieved = |id: &NodeId| pipeline.containers.iter().any(|home| repair.is_relieved(*home, *id));
        pipeline.row.former.iter().copied().find(|id| here(id) && !relieved(id))
    }

    pub(crate) fn drains(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|member| member.service == Service::Draining)
    }

    pub(crate) fn is_in_maintenance(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(Member::is_in_maintenance)
    }

    /// All members that can be counted on may go at any moment, as administrators work on them. One other is to have
    /// everything first, as HDFS has it (`dfs.namenode.maintenance.replication.min` is 1).
    pub(crate) fn needs_cover(&self, row: &PipelineRow, rules: &LivenessRules) -> bool {
        let is_away = |node: &NodeId| self.is_in_maintenance(*node);
        let covers = |node: &NodeId| !is_away(node) && !self.drains(*node) && !rules.is_lost(self.nodes.get(node));
        row.members.iter().any(is_away) && !row.members.iter().any(covers)
    }

    /// Whether everything that a node in maintenance has is on another one that is up, and is not in maintenance
    /// itself. So it may go. A block that is being written counts as well: it is on the nodes of its chain, and a
    /// member that came later has it only when it is complete.
    pub fn is_covered(&self, node: NodeId, rules: &LivenessRules) -> bool {
        let covers = |home: ContainerId, other: &NodeId| {
            let member = self.nodes.get(other);
            *other != node
                && !self.is_in_maintenance(*other)
                && self.is_whole(home, *other)
                && member.is_some_and(|member| member.is_live(rules.now))
        };
        self.pipelines_of(node).iter().filter_map(|id| self.pipelines.get(id)).all(|pipeline| {
            let members = &pipeline.row.members;
            pipeline.containers.iter().all(|home| members.iter().any(|other| covers(*home, other)))
        })
    }

    /// Members that do not drain.
    pub(crate) fn staying(&self, row: &PipelineRow) -> usize {
        row.members.iter().filter(|node| !self.drains(**node)).count()
    }

    pub(crate) fn fullest(&self, members: &[NodeId]) -> Option<NodeId> {
        members.iter().copied().max_by_key(|id| self.nodes.get(id).map_or(0, Member::used_parts))
    }

    /// Pipelines that a node is in.
    pub fn pipelines_of(&self, node: NodeId) -> &[PipelineId] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// The next change of a pipeline's members that a round proposes, if no copy is under way; for tests.
#[cfg(test)]
pub(crate) fn next_change(cluster: &Cluster, rules: &LivenessRules, random: &mut dyn Random) -> Option<Command> {
    next_change_with(cluster, &Repair::default(), &Surplus::default(), rules, random)
}

/// The same, with what is known of copies and of surplus replicas.
#[cfg(test)]
pub(crate) fn next_change_with(
    cluster: &Cluster,
    repair: &Repair,
    surplus: &Surplus,
    rules: &LivenessRules,
    random: &mut dyn Random,
) -> Option<Command> {
    let mut round = MembershipRound::begin(cluster, repair, surplus, rules);
    loop {
        match round.step(cluster, repair, rules, random) {
            Step::Propose(command) => return Some(command),
            Step::Again => {}
            Step::Done(_) => return None,
        }
    }
}
