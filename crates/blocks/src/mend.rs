//! Which nodes a pipeline should have: lost members are replaced, short sets filled up, nodes that drain relieved.
//!
//! ```text
//!            lost a member ──▶ another takes its place ─┐
//!   short of members ────────▶ one more joins ──────────┼──▶ joining: copies what the containers hold ──▶ whole ──▶ joined
//!   a member drains ─────────▶ one more joins ──────────┘          │                                        │
//!                                                                  └── the lost one returned: it is put     └─▶ who drains,
//!                                                                      back, and the copying ends               or is too many, goes
//! ```
//!
//! Promise: nobody is counted as lost before this process has listened for as long as a node may be silent, so never on the
//! picture of a start; a set whose whole members are all lost stays as it is, since they alone have its blocks; and no member
//! that is there goes before all containers are whole on those who stay. One command at a time: after each the picture is looked
//! at again.

use crate::cluster::{Cluster, Pipeline};
use crate::command::Command;
use crate::node::Member;
use crate::tables::{PipelineRow, Service};
use std::time::Duration;
use types::{NodeId, PipelineId, Random};

/// What the decisions rest on beside the picture itself.
#[derive(Clone, Copy, Debug)]
pub struct MendRules {
    pub now: Duration,
    /// Since when this process leads and has not stood still, by the same clock: it can say nothing of silences that began before.
    pub hearing_since: Duration,
    /// A node that was silent for longer is lost.
    pub lost_after: Duration,
    /// Members of sets of which that was never recorded.
    pub usual_replication: u16,
}

impl MendRules {
    /// Whether a silence up to now tells anything.
    pub fn can_tell(&self) -> bool {
        self.now.saturating_sub(self.hearing_since) > self.lost_after
    }

    pub fn is_lost(&self, member: Option<&Member>) -> bool {
        let seen = member.and_then(Member::seen).unwrap_or_default().max(self.hearing_since);
        self.can_tell() && self.now.saturating_sub(seen) > self.lost_after
    }

    pub(crate) fn is_here(&self, member: &Member) -> bool {
        member.is_live(self.now) && member.seen().is_some_and(|seen| self.now.saturating_sub(seen) <= self.lost_after)
    }
}

/// Bytes that must stay free on a node that takes over containers: those of a block of the usual length.
const SPARE_LEN: u64 = types::limits::BLOCK_LEN_DEFAULT;

impl Cluster {
    /// The next change of a pipeline's members; `None` when all is as it should be, or as good as it gets.
    pub fn mend(&self, rules: &MendRules, random: &mut dyn Random) -> Option<Command> {
        if !rules.can_tell() {
            return None;
        }
        self.pipelines.iter().find_map(|(id, pipeline)| self.mend_one(*id, pipeline, rules, random))
    }

    fn mend_one(
        &self,
        id: PipelineId,
        pipeline: &Pipeline,
        rules: &MendRules,
        random: &mut dyn Random,
    ) -> Option<Command> {
        let row = &pipeline.row;
        let set = |members: Vec<NodeId>| Some(Command::SetMembers { pipeline: id, epoch: row.epoch, members });
        let is_joining = |node: &NodeId| row.joining.iter().any(|(joiner, _)| joiner == node);
        let lost = |node: &NodeId| rules.is_lost(self.nodes.get(node));
        let wanted = usize::from(row.wanted_or(rules.usual_replication)).max(1);
        // Blocks of the set are on its whole members. With none of them there, nobody could copy; they are waited for.
        let sources = row.members.iter().filter(|node| !is_joining(node) && !lost(node)).count();
        let whole = |(node, epoch): &(NodeId, _)| {
            let mut containers = pipeline.containers.iter().filter_map(|home| self.containers.get(home));
            !lost(node) && containers.all(|container| container.epoch >= *epoch)
        };
        if !row.joining.is_empty() && row.joining.iter().all(whole) {
            return Some(Command::Joined { pipeline: id, epoch: row.epoch });
        }
        if let Some(back) = self.returned(row, rules) {
            // Who joined last has copied least.
            let out = row.members.iter().copied().find(lost).or_else(|| {
                let joined = row.joining.iter().max_by_key(|(_, epoch)| *epoch);
                joined.map(|(node, _)| *node)
            });
            return set(swap(&row.members, out.filter(|_| row.members.len() >= wanted), Some(back)));
        }
        if sources == 0 {
            return None;
        }
        if let Some(gone) = row.members.iter().copied().find(lost) {
            let others = row.members.len() - 1;
            if others >= wanted && row.joining.iter().all(|(node, _)| *node == gone) {
                return set(swap(&row.members, Some(gone), None));
            }
            return set(swap(&row.members, Some(gone), Some(self.newcomer(id, pipeline, rules, random)?)));
        }
        if self.staying(row) < wanted
            && let Some(newcomer) = self.newcomer(id, pipeline, rules, random)
        {
            return set(swap(&row.members, None, Some(newcomer)));
        }
        if !row.joining.is_empty() {
            return None;
        }
        if row.members.len() > wanted {
            let out =
                row.members.iter().copied().find(|node| self.drains(*node)).or_else(|| self.fullest(&row.members))?;
            return set(swap(&row.members, Some(out), None));
        }
        let twin = self.by_members.get(&row.members)?.iter().filter(|other| **other != id);
        let mut twins = twin.filter(|other| {
            let into = &self.pipelines[other].row;
            row.can_merge(into) && (into.planned != row.planned || **other < id)
        });
        twins.next().map(|into| Command::Merge { from: id, into: *into })
    }

    /// A former member that is back while others still copy what it has.
    fn returned(&self, row: &PipelineRow, rules: &MendRules) -> Option<NodeId> {
        let here = |id: &NodeId| {
            let member = self.nodes.get(id);
            member.is_some_and(|member| rules.is_here(member) && member.service == Service::Serving)
        };
        row.former.iter().copied().find(here)
    }

    /// Who joins: on a rack with few of the others, with few pipelines to join already, with little to do.
    fn newcomer(
        &self,
        id: PipelineId,
        pipeline: &Pipeline,
        rules: &MendRules,
        random: &mut dyn Random,
    ) -> Option<NodeId> {
        let stay: Vec<&str> = pipeline.row.members.iter().map(|id| self.rack(*id)).collect();
        let chosen = self.newcomers(pipeline, rules).min_by_key(|member| {
            let same = stay.iter().filter(|rack| **rack == member.node.rack).count();
            let joins = self.joins(member.node.id, id);
            (same, joins, member.used_permille() / 100, member.load(), random.next_u64())
        });
        chosen.map(|member| member.node.id)
    }

    /// Nodes that could join: here, in service, with room for what the containers hold.
    pub(crate) fn newcomers<'a>(
        &'a self,
        pipeline: &'a Pipeline,
        rules: &'a MendRules,
    ) -> impl Iterator<Item = &'a Member> {
        let len = self.len_of(pipeline.containers.iter());
        self.nodes.values().filter(move |member| {
            let fits = member.usage.free_len >= len.saturating_add(SPARE_LEN);
            let is_member = pipeline.row.members.contains(&member.node.id);
            rules.is_here(member) && member.is_taken(rules.now) && fits && !is_member
        })
    }

    fn drains(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|member| member.service == Service::Draining)
    }

    /// Members that do not drain.
    pub(crate) fn staying(&self, row: &PipelineRow) -> usize {
        row.members.iter().filter(|node| !self.drains(**node)).count()
    }

    /// Pipelines, other than `but`, that a node joins just now.
    fn joins(&self, node: NodeId, but: PipelineId) -> usize {
        let pipelines = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        let joining = pipelines
            .iter()
            .filter(|id| **id != but && self.pipelines[id].row.joining.iter().any(|(joiner, _)| *joiner == node));
        joining.count()
    }

    fn fullest(&self, members: &[NodeId]) -> Option<NodeId> {
        members.iter().copied().max_by_key(|id| self.nodes.get(id).map_or(0, Member::used_parts))
    }

    /// Pipelines that a node is in.
    pub fn pipelines_of(&self, node: NodeId) -> &[PipelineId] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// The members without `out` and with `into`.
fn swap(members: &[NodeId], out: Option<NodeId>, into: Option<NodeId>) -> Vec<NodeId> {
    let mut members: Vec<NodeId> = members.iter().copied().filter(|id| Some(*id) != out).chain(into).collect();
    members.sort_unstable();
    members.dedup();
    members
}
