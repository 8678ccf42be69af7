//! Known faults of single replicas at one moment, and the copies of a block that are sound by that.

use crate::cluster::Cluster;
use crate::liveness::LivenessRules;
use crate::member::Member;
use crate::repair::Repair;
use namespace::BlockView;
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};

#[derive(Clone, Debug, Default)]
pub struct UnsoundReplicas {
    absent: BTreeSet<(BlockId, NodeId)>,
    bad: BTreeSet<(BlockId, NodeId)>,
    missing: BTreeSet<BlockId>,
    /// Containers whose new members have reported: those that came to this pipeline up to this epoch.
    reported: BTreeMap<ContainerId, (PipelineId, Epoch)>,
    /// Blocks of which a copy is ordered, or waits for its turn.
    pub pending_count: u64,
}

impl UnsoundReplicas {
    pub fn of(repair: &Repair) -> Self {
        Self {
            absent: repair.absent().collect(),
            bad: repair.bad().collect(),
            missing: repair.missing().map(|lost| lost.block).collect(),
            reported: repair.reported().collect(),
            pending_count: repair.pending_count() as u64,
        }
    }

    /// The node has said that its replica does not agree with its checksums.
    pub fn is_bad(&self, block: BlockId, node: NodeId) -> bool {
        self.bad.contains(&(block, node))
    }

    /// Nodes that are here with a sound replica.
    pub fn holders<'a>(
        &'a self,
        cluster: &'a Cluster,
        rules: &'a LivenessRules,
        view: &'a BlockView,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let is_sound = |id: &NodeId| {
            let replica = (view.block, *id);
            !self.missing.contains(&view.block) && !self.absent.contains(&replica) && !self.bad.contains(&replica)
        };
        self.having(cluster, rules, view.home).filter(is_sound)
    }

    /// Live members that have all of a container except what they reported to lack.
    fn having<'a>(
        &'a self,
        cluster: &'a Cluster,
        rules: &'a LivenessRules,
        home: ContainerId,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let pipeline = cluster.container(home).map(|container| container.pipeline);
        let reported_epoch = self.reported.get(&home).filter(|(of, _)| Some(*of) == pipeline).map(|(_, epoch)| *epoch);
        let has_full_catalogue = move |joined: Epoch| reported_epoch.is_some_and(|epoch| epoch >= joined);
        let members = cluster.member_ids(home).iter().copied();
        members
            .filter(move |id| cluster.node(*id).is_some_and(|member| is_here(member, rules)))
            .filter(move |id| cluster.joined(home, *id).is_none_or(has_full_catalogue))
    }

    /// Containers of a pipeline whose blocks all have too few copies, or may have.
    pub(crate) fn short_containers(
        &self,
        cluster: &Cluster,
        rules: &LivenessRules,
        id: PipelineId,
    ) -> Vec<ContainerId> {
        let wanted = cluster.pipeline(id).map_or(1, |known| known.row.wanted);
        let has_few = |home: &ContainerId| self.having(cluster, rules, *home).count() < usize::from(wanted);
        cluster.containers_of(id).filter(has_few).collect()
    }

    pub fn bad_on(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        let all = (block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]));
        self.bad.range(all).map(|(_, node)| *node)
    }

    pub fn is_damaged(&self, block: BlockId) -> bool {
        self.bad_on(block).next().is_some()
    }

    /// Blocks of which not every member may have a sound replica.
    pub(crate) fn blocks(&self) -> BTreeSet<BlockId> {
        let replicas = self.absent.iter().chain(&self.bad).map(|(block, _)| *block);
        replicas.chain(self.missing.iter().copied()).collect()
    }

    /// Blocks that may have no sound replica at all.
    pub fn without_sound(&self) -> BTreeSet<BlockId> {
        self.missing.iter().copied().chain(self.bad.iter().map(|(block, _)| *block)).collect()
    }
}

/// Right after a leader began it has received no heartbeat yet, and no silence counts. Nor does that of a node that is
/// away for a known time: what it has is there, for repair.
pub(crate) fn is_here(member: &Member, rules: &LivenessRules) -> bool {
    let is_unheard = member.seen().is_none() && !rules.has_heard_all();
    member.is_live(rules.now) || is_unheard || member.leave.is_some() && !rules.is_lost(Some(member))
}
