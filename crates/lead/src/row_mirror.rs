//! How the leader's picture follows the rows: by the commands that were applied to them.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::member::Member;
use crate::pipeline::Pipeline;
use blocks::{BlocksError, Command, ContainerRow, ContainerState, LeaveKind, PipelineRow, Reply};
use std::collections::BTreeSet;
use types::{ContainerId, Epoch, NodeId, PipelineId};

impl Cluster {
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

    pub(crate) fn mirror_pipeline(&mut self, id: PipelineId, row: PipelineRow) {
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

    pub(crate) fn mirror_container(&mut self, id: ContainerId, row: &ContainerRow) {
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
}
