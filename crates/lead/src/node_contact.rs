//! Messages of datanodes, and the ends of their connections: which nodes are there, and what they have in use.

use crate::cluster::Cluster;
use crate::member::NodeUsage;
use std::time::Duration;
use types::NodeId;

impl Cluster {
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
            Some(member) if !member.must_register() => {
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

    /// False: the node must register first ([`Member::must_register`]).
    pub fn on_heartbeat(&mut self, now: Duration, node: NodeId, usage: NodeUsage) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if !member.must_register() => {
                member.on_heartbeat(usage, now);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, Node, apply};
    use security::joining;
    use types::PipelineId;
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
}
