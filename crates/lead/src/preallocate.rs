//! Preparation for new blocks: pipelines, a container for each, and block ids in hand, so that no new block waits for
//! them.
//!
//! There are few distinct pipelines. If three nodes die at once, data is lost only if they are a pipeline. With each
//! node in a handful of pipelines, that is some thousand times less likely than with a set drawn for each block. It
//! costs nothing else (Cidon et al., Copysets, 2013).

use crate::cluster::Cluster;
use crate::container::Container;
use crate::member::Member;
use blocks::Command;
use std::time::Duration;
use types::limits::BLOCK_LEN_DEFAULT;
use types::{BlockId, NodeId, PipelineId, Random};

/// Planned sets that each node is in. Enough that a dead node's data is copied from and to several others.
const PIPELINES_PER_NODE: usize = 3;
/// Attempts at a set that is not there yet. Small clusters have only few sets, and trying again later costs the same.
const DRAW_COUNT: usize = 8;
/// Ids leased at once. What is not used is lost with the process; a container has a million.
const LEASE_COUNT_MIN: u32 = 32;
const LEASE_COUNT_MAX: u32 = 4096;

/// New blocks will be placed there. A quiet node is in too few pipelines as soon as others take its place in them, and
/// would be given one after the other.
fn is_expected(member: &Member, now: Duration) -> bool {
    member.is_taken(now) && !member.is_quiet(now)
}

impl Cluster {
    /// The next thing to prepare for blocks of this replication; `None` when all is ready. To be asked again after each
    /// answer.
    pub fn ahead(&self, replication: u16, now: Duration, random: &mut dyn Random) -> Option<Command> {
        self.missing_pipeline(replication, now, random).or_else(|| self.missing_ids(replication, now))
    }

    /// A set with the node that is in too few.
    fn missing_pipeline(&self, wanted: u16, now: Duration, random: &mut dyn Random) -> Option<Command> {
        let size = usize::from(wanted);
        let live: Vec<NodeId> =
            self.nodes.values().filter(|member| is_expected(member, now)).map(|member| member.node.id).collect();
        if size == 0 || live.len() < size {
            return None;
        }
        let first = live.iter().copied().min_by_key(|id| (self.planned_count(*id, size), random.next_u64()))?;
        if self.planned_count(first, size) >= PIPELINES_PER_NODE {
            return None;
        }
        (0..DRAW_COUNT).find_map(|_| {
            let mut members = self.draw_set(size, &live, Some(first), random);
            members.sort_unstable();
            let known = self.find_set(&members, wanted).is_some_and(|id| self.pipelines[&id].row.planned);
            (!known).then_some(Command::CreateSet { members, wanted, planned: true })
        })
    }

    /// A container, or ids of it, for pipelines that new blocks may go to.
    fn missing_ids(&self, replication: u16, now: Duration) -> Option<Command> {
        let live = |node: &NodeId| self.nodes.get(node).is_some_and(|member| is_expected(member, now));
        let wanted = self.pipelines.iter().filter(|(_, pipeline)| {
            let row = &pipeline.row;
            let ready = row.planned && row.wanted == replication && row.members.len() == usize::from(replication);
            (pipeline.in_use || ready) && row.members.iter().all(live)
        });
        wanted.into_iter().find_map(|(id, pipeline)| {
            let Some(home) = pipeline.open.last() else {
                // A pipeline that is not planned any more gets a container when a writer asks for it again.
                return pipeline.row.planned.then_some(Command::OpenContainer { pipeline: *id });
            };
            let container = &self.containers[home];
            if container.is_full(self.container_len_max) {
                return Some(Command::Seal { container: *home, len: container.held_len() });
            }
            let count = lease_count(container, BLOCK_LEN_DEFAULT, self.container_len_max);
            let low = container.in_hand.len() as u32 <= count / 4;
            (low && count > 0).then(|| Command::LeaseIndexes {
                container: *home,
                from: container.leased_index_count,
                up_to: container.leased_index_count + count,
                lessee: self.lessee(),
                len: container.held_len(),
            })
        })
    }

    /// `size` of the `able` nodes: racks as even as they can be, then nodes that are in the fewest sets, then chance.
    pub(crate) fn draw_set(
        &self,
        size: usize,
        able: &[NodeId],
        first: Option<NodeId>,
        random: &mut dyn Random,
    ) -> Vec<NodeId> {
        let mut drawn: Vec<NodeId> = first.into_iter().collect();
        while drawn.len() < size {
            let racks: Vec<&str> = drawn.iter().map(|id| self.rack(*id)).collect();
            let free = able.iter().copied().filter(|id| !drawn.contains(id));
            let next = free.min_by_key(|id| {
                let same = racks.iter().filter(|rack| **rack == self.rack(*id)).count();
                // Not the fewest exactly, or the same nodes would meet each other again and again.
                (same, self.planned_count(*id, size) / 2, random.next_u64())
            });
            let Some(next) = next else { break };
            drawn.push(next);
        }
        drawn
    }

    pub(crate) fn planned_count(&self, node: NodeId, size: usize) -> usize {
        let pipelines = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        let planned = pipelines.iter().map(|id| &self.pipelines[id]);
        planned.filter(|pipeline| pipeline.row.planned && usize::from(pipeline.row.wanted) == size).count()
    }

    /// The pipeline of just these members, sorted, that should have `wanted`; a planned one before others.
    pub(crate) fn find_set(&self, members: &[NodeId], wanted: u16) -> Option<PipelineId> {
        let same = self.by_set.get(&(members.to_vec(), wanted))?.iter().copied();
        same.max_by_key(|id| self.pipelines[id].row.planned)
    }

    pub(crate) fn rack(&self, node: NodeId) -> &str {
        self.nodes.get(&node).map_or("", |member| &member.node.rack)
    }
}

/// How many ids to lease: about what fills the rest of the container, judged by the blocks it got so far. So the length
/// that goes into the rows with each lease is never far behind.
pub(crate) fn lease_count(container: &Container, block_len: u64, len_max: u64) -> u32 {
    let unconfirmed_len = u64::try_from(container.unconfirmed_len).unwrap_or(u64::MAX);
    let written_len = container.written_len.saturating_sub(unconfirmed_len);
    let usual = written_len.checked_div(container.given_count).unwrap_or(block_len).max(1);
    let room = len_max.saturating_sub(container.held_len()) / usual;
    let count = u32::try_from(room).unwrap_or(u32::MAX).clamp(LEASE_COUNT_MIN, LEASE_COUNT_MAX);
    count.min(BlockId::INDEX_COUNT - container.leased_index_count.min(BlockId::INDEX_COUNT))
}
