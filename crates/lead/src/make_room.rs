//! Making room where a copy is needed. It serves when the only nodes with space are members already of every pipeline
//! that lacks a copy.
//!
//! ```text
//! short of a copy: A B .    room is on A alone, C is full
//! another, on C D E         ──▶ Carve with A: it copies, C (the fullest) is removed, and C takes the missing copy
//! ```
//!
//! Promise: as when balancing, the node that takes over stays emptier than the one that it relieves, so this ends. One
//! move is under way at a time, whatever else is being copied. A file that is open for hours in a pipeline with a
//! joining member does not delay this.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::liveness::{LivenessRules, swap};
use crate::member::Member;
use crate::repair::Repair;
use blocks::Command;
use blocks::ContainerState;
use std::cmp::Reverse;
use types::{ContainerId, NodeId, PipelineId};

/// Nodes looked at as the one that takes, and as the one that is relieved: those with the most room. More are hardly
/// worth the look.
const LOOKED_AT_COUNT_MAX: usize = 8;

impl Cluster {
    /// Whether a container is on its way to another node though it has all its copies: as when room is made, or when
    /// fullness is levelled.
    pub(crate) fn is_moving(&self) -> bool {
        self.worklists.joining.iter().any(|id| {
            let row = &self.pipelines[id].row;
            row.wanted > 0 && self.staying(row) > usize::from(row.wanted)
        })
    }

    /// Moves a container off a node that could then take one of `stuck`, a pipeline that finds no room. `None`: no move
    /// helps.
    pub(crate) fn make_room(&self, stuck: PipelineId, repair: &Repair, rules: &LivenessRules) -> Option<Command> {
        let pipeline = self.pipelines.get(&stuck)?;
        let lens = pipeline.containers.iter().filter_map(|home| self.containers.get(home)).map(Container::held_len);
        let least = lens.min()?;
        let most_room = |mut nodes: Vec<&Member>| -> Vec<NodeId> {
            nodes.sort_by_key(|member| Reverse(self.room_len(member, repair)));
            nodes.into_iter().take(LOOKED_AT_COUNT_MAX).map(|member| member.node.id).collect()
        };
        let here = self.nodes.values().filter(|member| rules.is_here(member) && member.is_taken(rules.now));
        let takes = most_room(here.filter(|member| self.room_len(member, repair) > 0).collect());
        let relieved = most_room(self.takers(pipeline, rules).collect());
        relieved.into_iter().find_map(|from| {
            let needed = least.saturating_sub(self.room_len(&self.nodes[&from], repair));
            takes.iter().find_map(|to| self.move_between((from, *to), needed, repair, rules))
        })
    }

    /// The smallest container of at least `needed` that may move from one node to the other; one that is not being
    /// written if there is any.
    fn move_between(
        &self,
        (from, to): (NodeId, NodeId),
        needed: u64,
        repair: &Repair,
        rules: &LivenessRules,
    ) -> Option<Command> {
        let (source, target) = (self.nodes.get(&from)?, self.nodes.get(&to)?);
        let room = self.room_len(target, repair);
        if from == to || room < needed {
            return None;
        }
        // What is still written to can be open for long, and no other move comes before it is done.
        let mut best: Option<(bool, u64, ContainerId, PipelineId)> = None;
        for id in self.pipelines_of(from) {
            let row = &self.pipelines[id].row;
            let is_sound = row.joining.is_empty()
                && row.members.len() == usize::from(row.wanted)
                && row.members.iter().all(|node| !rules.is_lost(self.nodes.get(node)) && !self.drains(*node));
            let fits = !row.members.contains(&to) && self.keeps_racks(&row.members, from, to);
            if !is_sound || !fits || self.fullest(&row.members) != Some(from) {
                continue;
            }
            for home in &self.pipelines[id].containers {
                let container = &self.containers[home];
                let (is_written, len) = (container.state != ContainerState::Sealed, container.held_len());
                let is_smaller = best.is_none_or(|(known, known_len, ..)| (is_written, len) < (known, known_len));
                if len >= needed && len <= room && is_smaller && target.used_parts_with(len) < source.used_parts() {
                    best = Some((is_written, len, *home, *id));
                }
            }
        }
        let (_, _, home, id) = best?;
        let row = &self.pipelines[&id].row;
        let members = swap(&row.members, None, Some(to));
        Some(Command::Carve { from: id, epoch: row.epoch, containers: vec![home], members })
    }
}
