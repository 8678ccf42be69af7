//! The leader's picture of the block side: the rows, mirrored, and what only lives in memory.

use crate::command::{BlocksError, Command, Reply};
use crate::node::{Member, Node, Usage};
use crate::tables::{self, ContainerRow, ContainerState, PipelineRow};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use types::limits::CONTAINER_LEN_MAX;
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};

/// A set of nodes, and where its new blocks go.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub epoch: Epoch,
    /// Sorted.
    pub members: Vec<NodeId>,
    pub planned: bool,
    /// Containers that take new blocks; the last one is used. A pipeline has one as a rule: the more blocks share a container,
    /// the more of them share its pack and its syncs.
    pub(crate) open: Vec<ContainerId>,
    /// Something was placed here by this process, so its ids are kept at hand.
    pub(crate) in_use: bool,
}

#[derive(Clone, Debug)]
pub struct Container {
    pub pipeline: PipelineId,
    pub state: ContainerState,
    pub(crate) leased: u32,
    /// Bytes of its blocks, about.
    pub(crate) len: u64,
    /// Indexes leased by this process and not given out yet.
    pub(crate) in_hand: Range<u32>,
    /// Indexes given out by this process, and the bytes written to them since: tells how long blocks are here.
    pub(crate) given_count: u64,
    pub(crate) written_len: u64,
}

impl Container {
    fn mirrored(row: &ContainerRow) -> Self {
        Self {
            pipeline: row.pipeline,
            state: row.state,
            leased: row.leased,
            len: row.len,
            in_hand: 0..0,
            given_count: 0,
            written_len: 0,
        }
    }

    /// Full containers are sealed. What is being written just then makes them a little longer than that.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= CONTAINER_LEN_MAX || self.in_hand.is_empty() && self.leased >= BlockId::INDEX_COUNT
    }
}

/// What the leader knows. Changes come in by [`Cluster::on_applied`] and [`Cluster::on_heartbeat`]; decisions go out by the
/// methods of `place` and `ahead`.
#[derive(Debug)]
pub struct Cluster {
    /// Names this process in leases of indexes. Must differ from that of every process before.
    lessee: u64,
    pub(crate) nodes: BTreeMap<NodeId, Member>,
    pub(crate) pipelines: BTreeMap<PipelineId, Pipeline>,
    pub(crate) containers: BTreeMap<ContainerId, Container>,
    pub(crate) by_members: BTreeMap<Vec<NodeId>, PipelineId>,
    pub(crate) by_size: BTreeMap<usize, Vec<PipelineId>>,
    pub(crate) by_node: BTreeMap<NodeId, Vec<PipelineId>>,
}

impl Cluster {
    /// The picture right after a start: every node is known by its last address, and none has been heard.
    pub fn load(rows: &dyn Rows, lessee: u64) -> Result<Self, RowsError> {
        let mut cluster = Self {
            lessee,
            nodes: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            containers: BTreeMap::new(),
            by_members: BTreeMap::new(),
            by_size: BTreeMap::new(),
            by_node: BTreeMap::new(),
        };
        for (_, node) in tables::all::<Node>(rows, tables::NODE)? {
            cluster.nodes.insert(node.id, Member::remembered(node));
        }
        for (key, row) in tables::all::<PipelineRow>(rows, tables::PIPELINE)? {
            cluster.mirror_pipeline(PipelineId(tables::number(&key)?), row);
        }
        for (key, row) in tables::all::<ContainerRow>(rows, tables::CONTAINER)? {
            cluster.mirror_container(ContainerId(tables::number(&key)?), &row);
        }
        Ok(cluster)
    }

    pub fn lessee(&self) -> u64 {
        self.lessee
    }

    /// Follows a command that was applied, with its reply. To be called in the order of the log.
    pub fn on_applied(&mut self, command: &Command, reply: &Result<Reply, BlocksError>) {
        let Ok(reply) = reply else { return };
        match (command, reply) {
            (Command::Register(node), _) => match self.nodes.get_mut(&node.id) {
                Some(member) => member.node = node.clone(),
                None => {
                    self.nodes.insert(node.id, Member::remembered(node.clone()));
                }
            },
            (Command::CreatePipeline { members, planned }, Reply::Pipeline(id)) => {
                if let Some(known) = self.pipelines.get_mut(id) {
                    known.planned |= planned;
                } else {
                    let mut members = members.clone();
                    members.sort_unstable();
                    self.mirror_pipeline(*id, PipelineRow { epoch: Epoch(1), members, planned: *planned });
                }
            }
            (Command::OpenContainer { pipeline }, Reply::Container(id)) => {
                let row = ContainerRow {
                    pipeline: *pipeline,
                    epoch: Epoch(1),
                    state: ContainerState::Open,
                    leased: 0,
                    len: 0,
                };
                self.mirror_container(*id, &row);
            }
            (Command::LeaseIndexes { container, from, up_to, lessee, .. }, _) => {
                let ours = *lessee == self.lessee;
                if let Some(container) = self.containers.get_mut(container) {
                    container.leased = *up_to;
                    if ours && container.in_hand.end == *from {
                        container.in_hand.end = *up_to;
                    } else if ours {
                        // Somebody else leased in between; what little is left of the old lease is given up.
                        container.in_hand = *from..*up_to;
                    }
                }
            }
            (Command::Seal { container, .. }, _) => self.set_state(*container, ContainerState::Sealing),
            (Command::FinishSeal { container }, _) => self.set_state(*container, ContainerState::Sealed),
            (Command::CreatePipeline { .. } | Command::OpenContainer { .. }, _) => {}
        }
    }

    /// A node registered with this process: its row is applied, and it is heard now.
    pub fn on_registered(&mut self, now: Duration, node: NodeId, usage: Usage) {
        if let Some(member) = self.nodes.get_mut(&node) {
            (member.usage, member.seen, member.placed_count) = (usage, Some(now), 0);
        }
    }

    /// False: the node must register first, since this process does not know whether its address still holds.
    pub fn on_heartbeat(&mut self, now: Duration, node: NodeId, usage: Usage) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if member.seen.is_some() => {
                (member.usage, member.seen, member.placed_count) = (usage, Some(now), 0);
                true
            }
            _ => false,
        }
    }

    /// A block in `home` got `len` more bytes.
    pub fn on_written(&mut self, home: ContainerId, len: u64) {
        if let Some(container) = self.containers.get_mut(&home) {
            container.len = container.len.saturating_add(len);
            container.written_len = container.written_len.saturating_add(len);
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

    pub fn pipeline(&self, id: PipelineId) -> Option<&Pipeline> {
        self.pipelines.get(&id)
    }

    pub fn pipelines(&self) -> impl Iterator<Item = (PipelineId, &Pipeline)> {
        self.pipelines.iter().map(|(id, pipeline)| (*id, pipeline))
    }

    /// False for a block no process was ever given the id of: it is not from here, or from a time this state has lost.
    pub fn was_given_out(&self, block: BlockId) -> bool {
        self.containers.get(&block.born_in()).is_some_and(|container| block.index() < container.leased)
    }

    /// Ids of the nodes that hold a container, sorted; empty if there is no such container.
    pub fn member_ids(&self, home: ContainerId) -> &[NodeId] {
        let pipeline = self.containers.get(&home).and_then(|container| self.pipelines.get(&container.pipeline));
        pipeline.map_or(&[], |pipeline| &pipeline.members)
    }

    /// The nodes that hold a container, live or not.
    pub fn members(&self, home: ContainerId) -> Vec<&Member> {
        self.member_ids(home).iter().filter_map(|id| self.nodes.get(id)).collect()
    }

    pub fn is_member(&self, home: ContainerId, node: NodeId) -> bool {
        self.member_ids(home).binary_search(&node).is_ok()
    }

    fn set_state(&mut self, id: ContainerId, state: ContainerState) {
        let Some(container) = self.containers.get_mut(&id) else { return };
        container.state = state;
        if state != ContainerState::Open
            && let Some(pipeline) = self.pipelines.get_mut(&container.pipeline)
        {
            pipeline.open.retain(|open| *open != id);
        }
    }

    fn mirror_pipeline(&mut self, id: PipelineId, row: PipelineRow) {
        for member in &row.members {
            self.by_node.entry(*member).or_default().push(id);
        }
        self.by_size.entry(row.members.len()).or_default().push(id);
        self.by_members.insert(row.members.clone(), id);
        let pipeline =
            Pipeline { epoch: row.epoch, members: row.members, planned: row.planned, open: Vec::new(), in_use: false };
        self.pipelines.insert(id, pipeline);
    }

    fn mirror_container(&mut self, id: ContainerId, row: &ContainerRow) {
        if row.state == ContainerState::Open
            && let Some(pipeline) = self.pipelines.get_mut(&row.pipeline)
        {
            pipeline.open.push(id);
        }
        self.containers.insert(id, Container::mirrored(row));
    }
}
