//! Which nodes hold a container, and which of them have all of it.

use crate::cluster::Cluster;
use crate::member::Member;
use types::{ContainerId, Epoch, NodeId, PipelineId};

impl Cluster {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, Node, apply};
    use types::rows::MemoryRows;

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
