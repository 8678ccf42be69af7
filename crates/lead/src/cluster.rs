//! The leader's picture of the block side: a mirror of the rows, and what exists in memory only.

use crate::member::{Member, NodeUsage};
use crate::named_lengths::Claims;
use crate::worklists::Worklists;
use blocks::{
    BlocksError, Command, ContainerRow, ContainerState, LeaveKind, PipelineRow, RepairHold, Reply, Restored, tables,
};
use security::joining;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use types::limits::CONTAINER_LEN_MAX;
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};

/// A set of nodes, and where its new blocks go.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub row: PipelineRow,
    pub(crate) containers: BTreeSet<ContainerId>,
    /// Containers that take new blocks; the last one is used. A pipeline has one as a rule: the more blocks share a
    /// container, the more of them share its pack and its syncs.
    pub(crate) open: Vec<ContainerId>,
    /// Something was placed here by this process, so its ids are kept at hand.
    pub(crate) in_use: bool,
    /// Bytes of all its containers, about: a sum that a wrong claim about one of them cannot overflow.
    pub(crate) len: u128,
    /// Containers of which some joining member lacks blocks.
    pub(crate) lagging_count: u64,
}

impl Pipeline {
    /// Bytes of all its containers, about.
    pub fn len_about(&self) -> u64 {
        u64::try_from(self.len).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug)]
pub struct Container {
    pub pipeline: PipelineId,
    /// Of the pipeline when all members had all blocks.
    pub epoch: Epoch,
    pub state: ContainerState,
    /// Members that joined up to this epoch of the pipeline have reported all of the container.
    pub(crate) reported_epoch: Epoch,
    pub(crate) leased_index_count: u32,
    /// Of those: by leaders before this one.
    leased_index_count_before: u32,
    /// Bytes of its blocks, about.
    pub(crate) len: u64,
    /// Of those: bytes that no live node has. They cannot be copied, or a writer claimed bytes that it never wrote.
    pub(crate) missing_len: u64,
    /// Of the others: bytes that writers named, and that no node has confirmed yet.
    pub(crate) unconfirmed_len: u128,
    /// Indexes leased by this process and not given out yet.
    pub(crate) in_hand: Range<u32>,
    /// Indexes given out by this process, and the bytes written to them since: tells how long blocks are here.
    pub(crate) given_count: u64,
    pub(crate) written_len: u64,
}

impl Container {
    fn mirrored(row: &ContainerRow) -> Self {
        let leased_index_count = if mutation::is(Mutation::LeaseIndexesAgain) { 0 } else { row.leased_index_count };
        Self {
            pipeline: row.pipeline,
            epoch: row.epoch,
            state: row.state,
            reported_epoch: row.epoch,
            leased_index_count,
            leased_index_count_before: leased_index_count,
            len: row.len,
            missing_len: 0,
            unconfirmed_len: 0,
            in_hand: 0..0,
            given_count: 0,
            written_len: 0,
        }
    }

    /// Bytes of its blocks, about.
    pub fn len_about(&self) -> u64 {
        self.len
    }

    /// Bytes that its nodes have, which a new member would have to copy, about.
    pub(crate) fn held_len(&self) -> u64 {
        let held_len = u128::from(self.len.saturating_sub(self.missing_len)).saturating_sub(self.unconfirmed_len);
        u64::try_from(held_len).unwrap_or_default()
    }

    /// Block indexes given out.
    pub fn leased_index_count(&self) -> u32 {
        self.leased_index_count
    }

    /// Full containers are sealed. What is being written just then makes them a little longer than that.
    pub(crate) fn is_full(&self, len_max: u64) -> bool {
        self.held_len() >= len_max || self.in_hand.is_empty() && self.leased_index_count >= BlockId::INDEX_COUNT
    }
}

/// The block side as the leader sees it: its rows, mirrored by [`Cluster::on_applied`], and what datanodes and writers
/// report. Decisions that need nothing else are its methods, each in the module that it is about.
#[derive(Debug)]
pub struct Cluster {
    /// Names this process in leases of indexes. Must differ from that of every process before.
    lessee: u64,
    /// Containers take no further blocks from this length on.
    pub(crate) container_len_max: u64,
    pub(crate) nodes: BTreeMap<NodeId, Member>,
    pub(crate) pipelines: BTreeMap<PipelineId, Pipeline>,
    pub(crate) containers: BTreeMap<ContainerId, Container>,
    /// The youngest there ever was. Those up to it that are not among `containers` were removed.
    last_container: ContainerId,
    /// These rows were a backup once.
    restored: Option<Restored>,
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

    /// The members of the pipeline whose members `command` is about to change, for some of its containers at least.
    pub(crate) fn members_before(&self, command: &Command) -> Vec<NodeId> {
        let (Command::SetMembers { pipeline, .. } | Command::Carve { from: pipeline, .. }) = command else {
            return Vec::new();
        };
        self.pipelines.get(pipeline).map(|known| known.row.members.clone()).unwrap_or_default()
    }

    /// Follows a command that was applied, with its reply. To be called in the order of the log.
    pub fn on_applied(&mut self, command: &Command, reply: &Result<Reply, BlocksError>) {
        let Ok(reply) = reply else { return };
        match (command, reply) {
            (Command::Register(node), _) => match self.nodes.get_mut(&node.id) {
                Some(member) => {
                    member.node = node.clone();
                    member.leave = member.leave.filter(|leave| leave.kind != LeaveKind::Restart);
                }
                None => {
                    self.nodes.insert(node.id, Member::remembered(node.clone()));
                }
            },
            (Command::CreateSet { members, wanted, planned }, Reply::Pipeline(id)) => {
                if let Some(known) = self.pipelines.get_mut(id) {
                    known.row.planned |= planned;
                } else {
                    let mut members = members.clone();
                    members.sort_unstable();
                    self.mirror_pipeline(*id, PipelineRow::new(members, *wanted, *planned));
                }
            }
            (Command::OpenContainer { pipeline }, Reply::Container(id)) => {
                let row = ContainerRow {
                    pipeline: *pipeline,
                    epoch: self.pipelines.get(pipeline).map_or(Epoch(1), |pipeline| pipeline.row.epoch),
                    state: ContainerState::Open,
                    leased_index_count: 0,
                    len: 0,
                };
                self.mirror_container(*id, &row);
                if let Some(pipeline) = self.pipelines.get_mut(pipeline) {
                    pipeline.row.container_count += 1;
                }
                self.last_container = self.last_container.max(*id);
            }
            (Command::RemoveContainer { container }, _) => self.remove(*container),
            (Command::LeaseIndexes { container, from, up_to, lessee, .. }, _) => {
                let ours = *lessee == self.lessee;
                if let Some(container) = self.containers.get_mut(container) {
                    container.leased_index_count = *up_to;
                    if ours && container.in_hand.end == *from {
                        container.in_hand.end = *up_to;
                    } else if ours {
                        // Another leader leased in between; the little that is left of the old lease is given up.
                        container.in_hand = *from..*up_to;
                    }
                }
            }
            (Command::Seal { container, .. }, _) => self.set_state(*container, ContainerState::Sealing),
            (Command::FinishSeal { container }, _) => self.set_state(*container, ContainerState::Sealed),
            (Command::SetMembers { pipeline, members, .. }, _) => {
                let mut members = members.clone();
                members.sort_unstable();
                self.change_row(*pipeline, |row| row.set_members(members));
            }
            (Command::Whole { containers }, _) => {
                for (id, pipeline, epoch) in containers {
                    if self.containers.get(id).is_none_or(|container| container.pipeline != *pipeline) {
                        continue;
                    }
                    self.change_container(*id, |container| container.epoch = container.epoch.max(*epoch));
                    let whole = self.containers.get(id).map(|container| container.epoch);
                    if whole.is_some_and(|whole| self.copied.get(id).is_none_or(|known| known.1 <= whole)) {
                        self.copied.remove(id);
                    }
                }
            }
            (Command::Joined { pipeline, .. }, _) => self.change_row(*pipeline, PipelineRow::end_joining),
            (Command::Merge { from, into, containers }, _) => self.merge(*from, *into, containers),
            (Command::Carve { from, containers, members, .. }, Reply::Pipeline(id)) => {
                self.carve(*from, containers, members, *id);
            }
            (Command::SetService { node, service }, _) => {
                if let Some(member) = self.nodes.get_mut(node) {
                    member.service = *service;
                }
            }
            (Command::SetLeave { node, leave }, _) => {
                if let Some(member) = self.nodes.get_mut(node) {
                    member.leave = *leave;
                }
            }
            (Command::SetListed { node, listed }, _) => {
                if let Some(member) = self.nodes.get_mut(node) {
                    member.listed = *listed;
                }
            }
            (Command::HoldRepair { hold }, _) => self.repair_hold = *hold,
            (Command::ReleaseFound { at }, _) => {
                if let Some(restored) = &mut self.restored {
                    restored.released = Some(*at);
                }
            }
            (
                Command::CreateSet { .. }
                | Command::OpenContainer { .. }
                | Command::Carve { .. }
                | Command::BeginJob { .. }
                | Command::EndJob { .. },
                _,
            ) => {}
        }
    }

    /// A node registered with this process: its row is applied, and it counts as live from now on.
    pub fn on_registered(&mut self, now: Duration, node: NodeId, usage: NodeUsage) {
        if let Some(member) = self.nodes.get_mut(&node) {
            member.returned = member.seen.map(|_| now);
            member.on_heartbeat(usage, now);
        }
    }

    /// It sent another message than a heartbeat, as it does for minutes when it sends its catalogue.
    pub fn on_message(&mut self, now: Duration, node: NodeId) {
        let heard = self.nodes.get_mut(&node).filter(|member| member.seen.is_some() && !member.diskless);
        if let Some(member) = heard {
            (member.seen, member.hung_up, member.disconnected) = (Some(now), false, false);
        }
    }

    /// All its disks have failed. It counts as silent from now on, so that others take its place. As
    /// [`Self::on_heartbeat`], false if it has to register first.
    pub fn on_diskless(&mut self, node: NodeId, usage: NodeUsage) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if member.seen.is_some() => {
                member.set_usage(usage);
                member.diskless = true;
                true
            }
            _ => false,
        }
    }

    /// Its certificates do not count any more. It is lost from now on, without a wait, until it registers again.
    pub fn on_revoked(&mut self, node: NodeId) {
        if let Some(member) = self.nodes.get_mut(&node) {
            (member.seen, member.revoked) = (None, true);
        }
    }

    /// The connection of its last message has ended: new blocks are placed elsewhere, and another process may take its
    /// place.
    pub fn on_disconnected(&mut self, node: NodeId) {
        if let Some(member) = self.nodes.get_mut(&node) {
            (member.hung_up, member.disconnected) = (true, true);
        }
    }

    /// A writer dropped it from its chain. If it is live, its next heartbeat comes within a second.
    pub fn on_dropped_from_chain(&mut self, node: NodeId) {
        if let Some(member) = self.nodes.get_mut(&node) {
            member.hung_up = true;
        }
    }

    /// False: the node must register first, since this process does not know whether its address still holds.
    pub fn on_heartbeat(&mut self, now: Duration, node: NodeId, usage: NodeUsage) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if member.seen.is_some() => {
                member.on_heartbeat(usage, now);
                true
            }
            _ => false,
        }
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

    /// False for a block whose id was never given out: it is not from here, or from a time this state has lost. Ids of
    /// a removed container are not given out any more.
    pub fn was_given_out(&self, block: BlockId) -> bool {
        let home = block.born_in();
        self.containers
            .get(&home)
            .map_or(self.was_removed(home), |container| block.index() < container.leased_index_count)
    }

    /// Whether a leader before this one may have given a block out: this one does not know to which client.
    pub fn was_given_out_before(&self, block: BlockId) -> bool {
        let home = block.born_in();
        self.containers
            .get(&home)
            .map_or(self.was_removed(home), |container| block.index() < container.leased_index_count_before)
    }

    /// Its block may have been made after the backup from which these rows were restored: no file owns it because
    /// nobody remembers, and it is kept.
    pub fn may_be_forgotten(&self, block: BlockId) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_none() && block.born_in() <= restored.last_container)
    }

    /// It was such a block, and an administrator wants none of them any more.
    pub fn was_released(&self, block: BlockId) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_some() && block.born_in() <= restored.last_container)
    }

    /// There may be such blocks, and they were not released.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_none() && restored.last_container > ContainerId(0))
    }

    /// It was there once, and emptied.
    pub fn was_removed(&self, home: ContainerId) -> bool {
        (ContainerId(1)..=self.last_container).contains(&home) && !self.containers.contains_key(&home)
    }

    /// Ids of the nodes that hold a container, sorted; empty if there is no such container.
    pub fn member_ids(&self, home: ContainerId) -> &[NodeId] {
        let pipeline = self.containers.get(&home).and_then(|container| self.pipelines.get(&container.pipeline));
        pipeline.map_or(&[], |pipeline| &pipeline.row.members)
    }

    /// The set that holds a container, if it is made of these nodes, as it is now.
    pub fn set_of(&self, home: ContainerId, nodes: &[NodeId]) -> Option<(PipelineId, Epoch)> {
        let id = self.containers.get(&home)?.pipeline;
        let row = &self.pipelines.get(&id)?.row;
        let same = row.members.len() == nodes.len() && nodes.iter().all(|node| row.members.contains(node));
        same.then_some((id, row.epoch))
    }

    /// Whether a container is still held by this pipeline, with the same members.
    pub fn is_held_by(&self, home: ContainerId, (id, epoch): (PipelineId, Epoch)) -> bool {
        let same = self.containers.get(&home).is_some_and(|container| container.pipeline == id);
        same && self.pipelines.get(&id).is_some_and(|pipeline| pipeline.row.epoch == epoch)
    }

    /// The count of replicas that blocks of a container should have.
    pub fn wanted(&self, home: ContainerId) -> u16 {
        let pipeline = self.containers.get(&home).and_then(|container| self.pipelines.get(&container.pipeline));
        pipeline.map_or(0, |pipeline| pipeline.row.wanted)
    }

    /// False for a member that came later than what the container holds, and has not copied all of it yet.
    pub fn is_whole(&self, home: ContainerId, node: NodeId) -> bool {
        let Some(container) = self.containers.get(&home) else { return false };
        let Some(pipeline) = self.pipelines.get(&container.pipeline) else { return false };
        !pipeline.row.joining.iter().any(|(id, epoch)| *id == node && *epoch > container.epoch)
    }

    /// Members that joined up to `epoch` have reported what they have of the container; the blocks they lack are known
    /// by name.
    pub(crate) fn on_compared(&mut self, home: ContainerId, epoch: Epoch) {
        self.change_container(home, |container| container.reported_epoch = container.reported_epoch.max(epoch));
    }

    /// Members that joined up to `epoch` hold every complete block of the container.
    pub fn on_copied(&mut self, home: ContainerId, epoch: Epoch) {
        if let Some(container) = self.containers.get(&home) {
            self.copied.insert(home, (container.pipeline, epoch));
        }
    }

    /// False for a member that joined later, and may lack even blocks that are complete.
    pub(crate) fn has_complete(&self, home: ContainerId, node: NodeId) -> bool {
        let copied = || {
            // A container that moved to another pipeline is counted by other epochs.
            let of = self.containers.get(&home)?.pipeline;
            let joined = self.pipelines.get(&of)?.row.joining.iter().find(|(id, _)| *id == node)?.1;
            let (pipeline, epoch) = *self.copied.get(&home)?;
            Some(pipeline == of && epoch >= joined)
        };
        self.is_whole(home, node) || copied().unwrap_or(false)
    }

    /// Under which epoch a member came that may lack even blocks that are complete; `None` if it has them.
    pub fn joined(&self, home: ContainerId, node: NodeId) -> Option<Epoch> {
        let row = &self.pipelines.get(&self.containers.get(&home)?.pipeline)?.row;
        let (_, epoch) = row.joining.iter().find(|(id, _)| *id == node)?;
        (!self.has_complete(home, node)).then_some(*epoch)
    }

    /// The nodes that hold a container, live or not.
    pub fn members(&self, home: ContainerId) -> Vec<&Member> {
        self.member_ids(home).iter().filter_map(|id| self.nodes.get(id)).collect()
    }

    pub fn is_member(&self, home: ContainerId, node: NodeId) -> bool {
        self.member_ids(home).binary_search(&node).is_ok()
    }

    /// Whether replicas of a container's blocks are likely there: it holds the container, or did so before, and others
    /// copy what it has.
    pub fn may_hold(&self, home: ContainerId, node: NodeId) -> bool {
        let pipeline = self.containers.get(&home).and_then(|container| self.pipelines.get(&container.pipeline));
        pipeline.is_some_and(|pipeline| pipeline.row.members.contains(&node) || pipeline.row.former.contains(&node))
    }

    fn remove(&mut self, id: ContainerId) {
        self.count_out(id);
        let Some(container) = self.containers.remove(&id) else { return };
        self.copied.remove(&id);
        if let Some(pipeline) = self.pipelines.get_mut(&container.pipeline)
            && pipeline.containers.remove(&id)
        {
            pipeline.row.container_count -= 1;
        }
    }

    fn set_state(&mut self, id: ContainerId, state: ContainerState) {
        self.change_container(id, |container| container.state = state);
        let Some(container) = self.containers.get(&id) else { return };
        if state != ContainerState::Open
            && let Some(pipeline) = self.pipelines.get_mut(&container.pipeline)
        {
            pipeline.open.retain(|open| *open != id);
        }
    }

    fn mirror_pipeline(&mut self, id: PipelineId, row: PipelineRow) {
        self.list_pipeline(id, &row);
        let pipeline =
            Pipeline { row, containers: BTreeSet::new(), open: Vec::new(), in_use: false, len: 0, lagging_count: 0 };
        self.pipelines.insert(id, pipeline);
    }

    fn change_row(&mut self, id: PipelineId, change: impl FnOnce(&mut PipelineRow)) {
        let Some(mut row) = self.pipelines.get(&id).map(|pipeline| pipeline.row.clone()) else { return };
        self.unlist_pipeline(id, &row);
        let before = row.joining.clone();
        change(&mut row);
        self.list_pipeline(id, &row);
        self.recount_joining(id, &before, &row.joining);
        if let Some(pipeline) = self.pipelines.get_mut(&id) {
            pipeline.row = row;
        }
    }

    fn merge(&mut self, from: PipelineId, into: PipelineId, containers: &[ContainerId]) {
        containers.iter().for_each(|home| self.rehome(*home, into));
        if self.pipelines.get(&from).is_some_and(|gone| gone.row.container_count == 0)
            && let Some(gone) = self.pipelines.remove(&from)
        {
            self.unlist_pipeline(from, &gone.row);
        }
    }

    fn carve(&mut self, from: PipelineId, containers: &[ContainerId], members: &[NodeId], id: PipelineId) {
        let first = containers.first().and_then(|home| self.containers.get(home)).map(|container| container.epoch);
        let (Some(pipeline), Some(epoch)) = (self.pipelines.get(&from), first) else { return };
        let row = pipeline.row.carved(epoch, members.to_vec());
        self.mirror_pipeline(id, row);
        for home in containers {
            self.rehome(*home, id);
            self.change_container(*home, |container| container.epoch = Epoch(1));
        }
    }

    /// A container moves into another pipeline, whole on its members of longest standing, and takes no new blocks.
    fn rehome(&mut self, home: ContainerId, into: PipelineId) {
        self.count_out(home);
        self.copied.remove(&home);
        let epoch = self.pipelines.get(&into).map_or(Epoch(1), |pipeline| pipeline.row.epoch);
        if let Some(container) = self.containers.get_mut(&home) {
            if let Some(from) = self.pipelines.get_mut(&container.pipeline)
                && from.containers.remove(&home)
            {
                from.row.container_count -= 1;
                from.open.retain(|open| *open != home);
            }
            (container.pipeline, container.epoch, container.reported_epoch) = (into, epoch, Epoch(0));
            if container.state == ContainerState::Open {
                container.state = ContainerState::Sealing;
            }
        }
        if let Some(pipeline) = self.pipelines.get_mut(&into)
            && pipeline.containers.insert(home)
        {
            pipeline.row.container_count += 1;
        }
        self.count_in(home);
    }

    fn mirror_container(&mut self, id: ContainerId, row: &ContainerRow) {
        if let Some(pipeline) = self.pipelines.get_mut(&row.pipeline) {
            pipeline.containers.insert(id);
            if row.state == ContainerState::Open {
                pipeline.open.push(id);
            }
        }
        self.containers.insert(id, Container::mirrored(row));
        self.count_in(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Node, apply};
    use types::rows::MemoryRows;

    /// The rows say when a node's certificates were revoked, and only the node which one it has now.
    #[test]
    fn a_new_leader_sends_no_reader_to_a_node_that_was_revoked_until_it_registers() {
        let mut rows = MemoryRows::default();
        let members: Vec<NodeId> = (1..=2).map(|number| NodeId([number; 16])).collect();
        let mut commands: Vec<Command> = (1..=2).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: members.clone(), wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        for command in &commands {
            apply(&mut rows, command).unwrap().unwrap();
        }
        let revoke = joining::Command::Revoke { node: members[0], before: types::Millis(7) };
        joining::apply(&mut rows, &revoke).unwrap().unwrap();

        let mut cluster = Cluster::load(&rows, 1).unwrap();
        let home = cluster.containers_of(PipelineId(1)).next().unwrap();
        let named = |cluster: &Cluster| -> Vec<NodeId> {
            let order = cluster.readers_order(home, true, None, Duration::ZERO, &mut types::random::Seeded(1));
            order.iter().map(|member| member.node.id).collect()
        };
        assert_eq!(named(&cluster), [members[1]]);
        cluster.on_registered(Duration::ZERO, members[0], NodeUsage::default());
        assert_eq!(named(&cluster), [members[0]], "the only one that is live");
    }

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

    /// A container was found whole under an epoch of the pipeline that it has left since. Another pipeline counts its
    /// own.
    #[test]
    fn a_container_is_not_whole_by_the_epochs_of_a_pipeline_it_was_in_before() {
        let (mut rows, mut cluster) = (MemoryRows::default(), None);
        let (home, other, from) = (ContainerId(1), ContainerId(2), PipelineId(1));
        let id = |number: u8| NodeId([number; 16]);
        let set = |epoch, members: [u8; 2]| Command::SetMembers {
            pipeline: from,
            epoch: Epoch(epoch),
            members: members.map(id).to_vec(),
        };
        let mut commands: Vec<Command> = (1..=5).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![id(1), id(2)], wanted: 2, planned: true });
        commands.extend([Command::OpenContainer { pipeline: from }, Command::OpenContainer { pipeline: from }]);
        commands.extend([set(1, [1, 3]), set(2, [1, 4])]);
        let late = Command::Whole { containers: vec![(home, from, Epoch(3)), (other, from, Epoch(3))] };
        let members = vec![id(1), id(5)];
        commands.push(Command::Carve { from, epoch: Epoch(3), containers: vec![home], members });
        commands.push(late);
        for command in &commands {
            let cluster = cluster.get_or_insert_with(|| Cluster::load(&rows, 1).unwrap());
            let reply = apply(&mut rows, command).unwrap();
            reply.as_ref().unwrap();
            cluster.on_applied(command, &reply);
            cluster.check();
        }
        for cluster in [cluster.unwrap(), Cluster::load(&rows, 2).unwrap()] {
            assert!(cluster.is_whole(home, id(1)) && !cluster.is_whole(home, id(5)), "it has nothing yet");
            assert!(cluster.is_whole(other, id(4)), "this one is where it was");
        }
    }

    /// What is known of one who joins is of no use once the container is whole.
    #[test]
    fn what_was_copied_is_forgotten_when_all_is() {
        let (mut rows, mut cluster) = (MemoryRows::default(), None);
        let (home, pipeline) = (ContainerId(1), PipelineId(1));
        let id = |number: u8| NodeId([number; 16]);
        let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![id(1), id(2)], wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline });
        commands.push(Command::SetMembers { pipeline, epoch: Epoch(1), members: vec![id(1), id(3)] });
        for command in &commands {
            let cluster = cluster.get_or_insert_with(|| Cluster::load(&rows, 1).unwrap());
            let reply = apply(&mut rows, command).unwrap();
            reply.as_ref().unwrap();
            cluster.on_applied(command, &reply);
        }
        let mut cluster = cluster.unwrap();
        assert!(!cluster.has_complete(home, id(3)));
        cluster.on_copied(home, Epoch(2));
        assert!(cluster.has_complete(home, id(3)) && !cluster.is_whole(home, id(3)));
        let whole = Command::Whole { containers: vec![(home, pipeline, Epoch(2))] };
        let reply = apply(&mut rows, &whole).unwrap();
        cluster.on_applied(&whole, &reply);
        assert!(cluster.is_whole(home, id(3)) && cluster.copied.is_empty());
    }
}
