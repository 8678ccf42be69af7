//! The leader's picture of the block side: a mirror of the rows, and what exists in memory only.

use crate::container::Container;
use crate::member::Member;
use crate::named_lengths::Claims;
use crate::pipeline::Pipeline;
use crate::worklists::Worklists;
use blocks::{RepairHold, Restored, tables};
use security::joining;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::limits::CONTAINER_LEN_MAX;
use types::rows::{Rows, RowsError};
use types::{ContainerId, Epoch, NodeId, PipelineId};

/// The block side as the leader sees it: its rows, mirrored by [`Cluster::on_applied`], and what datanodes and writers
/// report. Decisions that need nothing else are its methods, each in the module that it is about.
#[derive(Debug)]
pub struct Cluster {
    /// Names this process in leases of indexes. Must differ from that of every process before.
    pub(crate) lessee: u64,
    /// Containers take no further blocks from this length on.
    pub(crate) container_len_max: u64,
    pub(crate) nodes: BTreeMap<NodeId, Member>,
    pub(crate) pipelines: BTreeMap<PipelineId, Pipeline>,
    pub(crate) containers: BTreeMap<ContainerId, Container>,
    /// The youngest there ever was. Those up to it that are not among `containers` were removed.
    pub(crate) last_container: ContainerId,
    /// These rows were a backup once.
    pub(crate) restored: Option<Restored>,
    /// By members, and how many there should be.
    pub(crate) by_set: BTreeMap<(Vec<NodeId>, u16), BTreeSet<PipelineId>>,
    pub(crate) by_wanted: BTreeMap<u16, Vec<PipelineId>>,
    pub(crate) by_node: BTreeMap<NodeId, Vec<PipelineId>>,
    /// Racks of clients' machines, by the topology script. Not durable: it is asked again.
    pub(crate) racks: BTreeMap<String, String>,
    /// Containers of which members that joined up to this epoch hold every complete block. They are not whole yet, as
    /// blocks begun before are still being written.
    pub(crate) copied: BTreeMap<ContainerId, (PipelineId, Epoch)>,
    pub(crate) worklists: Worklists,
    /// Containers of which bytes are missing.
    missing_of: Vec<ContainerId>,
    pub(crate) claims: Claims,
    /// An administrator has repair wait.
    pub repair_hold: Option<RepairHold>,
}

impl Cluster {
    /// The picture right after a start: every node is known by its last address, and none has sent a heartbeat.
    pub fn load(rows: &dyn Rows, lessee: u64) -> Result<Self, RowsError> {
        let mut cluster = Self {
            lessee,
            container_len_max: CONTAINER_LEN_MAX,
            nodes: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            containers: BTreeMap::new(),
            last_container: tables::last_container(rows)?,
            restored: tables::restored(rows)?,
            by_set: BTreeMap::new(),
            by_wanted: BTreeMap::new(),
            by_node: BTreeMap::new(),
            racks: BTreeMap::new(),
            copied: BTreeMap::new(),
            worklists: Worklists::default(),
            missing_of: Vec::new(),
            claims: Claims::default(),
            repair_hold: tables::repair_hold(rows)?,
        };
        for node in tables::nodes(rows)? {
            let unproven = joining::revoked_before(rows, node.id)?.is_some();
            cluster.nodes.insert(node.id, Member { unproven, ..Member::remembered(node) });
        }
        for (id, service) in tables::services(rows)? {
            if let Some(member) = cluster.nodes.get_mut(&id) {
                member.service = service;
            }
        }
        for (id, leave) in tables::leaves(rows)? {
            if let Some(member) = cluster.nodes.get_mut(&id) {
                member.leave = Some(leave);
            }
        }
        for (id, listed) in tables::listed(rows)? {
            if let Some(member) = cluster.nodes.get_mut(&id) {
                member.listed = listed;
            }
        }
        for (id, row) in tables::pipelines(rows)? {
            cluster.mirror_pipeline(id, row);
        }
        for (id, row) in tables::containers(rows)? {
            cluster.mirror_container(id, &row);
        }
        Ok(cluster)
    }

    /// Containers are to be longer or shorter than usual.
    pub fn set_container_len_max(&mut self, len: u64) {
        self.container_len_max = len;
    }

    pub fn lessee(&self) -> u64 {
        self.lessee
    }

    /// Blocks in `home` got `len` more bytes, as its nodes reported. For a writer's claim: [`Cluster::on_claimed_len`].
    pub fn on_written(&mut self, home: ContainerId, len: u64) {
        self.change_container(home, |container| {
            container.len = container.len.saturating_add(len);
            container.written_len = container.written_len.saturating_add(len);
        });
    }

    /// The blocks in `home` were counted: they have so many bytes. Those that were deleted since the last time count no
    /// more.
    pub fn on_measured(&mut self, home: ContainerId, len: u64) {
        self.change_container(home, |container| container.len = len);
    }

    /// What no node has of each container. Of those that are not named the nodes have all.
    pub(crate) fn set_missing(&mut self, lens: impl Iterator<Item = (ContainerId, u64)>) {
        let lens: BTreeMap<ContainerId, u64> = lens.collect();
        let before = std::mem::replace(&mut self.missing_of, lens.keys().copied().collect());
        for home in before.into_iter().filter(|home| !lens.contains_key(home)) {
            self.change_container(home, |container| container.missing_len = 0);
        }
        for (home, len) in lens {
            if self.containers.get(&home).is_some_and(|container| container.missing_len != len) {
                self.change_container(home, |container| container.missing_len = len);
            }
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Member> {
        self.nodes.values()
    }

    pub fn node(&self, id: NodeId) -> Option<&Member> {
        self.nodes.get(&id)
    }

    pub fn live_count(&self, now: Duration) -> usize {
        self.nodes.values().filter(|member| member.is_live(now)).count()
    }

    pub fn container(&self, id: ContainerId) -> Option<&Container> {
        self.containers.get(&id)
    }

    pub fn containers(&self) -> impl Iterator<Item = (ContainerId, &Container)> {
        self.containers.iter().map(|(id, container)| (*id, container))
    }

    pub fn container_count(&self) -> usize {
        self.containers.len()
    }

    pub fn pipeline_count(&self) -> usize {
        self.pipelines.len()
    }

    /// Up to `count` sealed containers behind `after`.
    pub fn sealed_after(&self, after: Option<ContainerId>, count: usize) -> Vec<ContainerId> {
        let from = ContainerId(after.map_or(0, |after| after.0 + 1));
        self.worklists.sealed.range(from..).take(count).copied().collect()
    }

    pub fn is_sealed(&self, home: ContainerId) -> bool {
        self.worklists.sealed.contains(&home)
    }

    /// Pipelines with joining members.
    pub fn joined_pipelines(&self) -> impl Iterator<Item = PipelineId> + '_ {
        self.worklists.joining.iter().copied()
    }

    /// Pipelines some containers of which may have fewer whole copies than they should. They have a member that is not
    /// `here`, a joining member, or another number of members than they should have.
    pub fn doubtful_pipelines(&self, here: impl Fn(&Member) -> bool) -> BTreeSet<PipelineId> {
        let away = self.nodes.values().filter(|member| !here(member)).map(|member| member.node.id);
        let of_away = away.flat_map(|node| self.pipelines_of(node).iter().copied());
        of_away.chain(self.worklists.joining.iter().copied()).chain(self.worklists.uneven.iter().copied()).collect()
    }

    /// Containers behind this one.
    pub fn containers_behind(&self, after: ContainerId) -> impl Iterator<Item = (ContainerId, &Container)> {
        let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.containers.range(behind).map(|(id, container)| (*id, container))
    }

    /// The next container by number, and then the first again.
    pub fn container_after(&self, after: Option<ContainerId>) -> Option<ContainerId> {
        let next = after.and_then(|after| self.containers.range(ContainerId(after.0 + 1)..).next());
        next.or_else(|| self.containers.iter().next()).map(|(id, _)| *id)
    }

    pub fn containers_of(&self, id: PipelineId) -> impl Iterator<Item = ContainerId> + '_ {
        self.pipelines.get(&id).into_iter().flat_map(|pipeline| pipeline.containers.iter().copied())
    }

    pub fn pipeline(&self, id: PipelineId) -> Option<&Pipeline> {
        self.pipelines.get(&id)
    }

    pub fn pipelines(&self) -> impl Iterator<Item = (PipelineId, &Pipeline)> {
        self.pipelines.iter().map(|(id, pipeline)| (*id, pipeline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, Node, apply};
    use types::rows::MemoryRows;

    /// Two claims of a length that is none must not stop a debug build, nor look like little in a release build.
    #[test]
    fn lengths_of_containers_add_up_without_overflow() {
        let (mut rows, mut cluster) = (MemoryRows::default(), None);
        let (pipeline, members) = (PipelineId(1), vec![NodeId([1; 16])]);
        let mut commands = vec![Command::Register(Node::example(1, "/r"))];
        commands.push(Command::CreateSet { members, wanted: 1, planned: true });
        commands.extend([Command::OpenContainer { pipeline }, Command::OpenContainer { pipeline }]);
        for command in &commands {
            let cluster = cluster.get_or_insert_with(|| Cluster::load(&rows, 1).unwrap());
            let reply = apply(&mut rows, command).unwrap();
            cluster.on_applied(command, &reply);
        }
        let mut cluster = cluster.unwrap();
        let homes: Vec<ContainerId> = cluster.containers_of(pipeline).collect();
        homes.iter().for_each(|home| cluster.on_written(*home, 1 << 63));
        assert_eq!((homes.len(), cluster.pipeline(pipeline).unwrap().len_about()), (2, u64::MAX));
        homes.iter().for_each(|home| cluster.on_measured(*home, 5));
        assert_eq!(cluster.pipeline(pipeline).unwrap().len_about(), 10);
        cluster.check();
    }
}
