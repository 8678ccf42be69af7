//! The nodes that get a block: their order, which belongs to the routing table, and those that were dropped.

use super::fault::Break;
use crate::fault::Fault;
use hdfs::proto::DatanodeInfoProto;
use wire::Routing;

/// One of the nodes that get the block.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// As the metadata server describes it. Nodes and server get it back in these words.
    pub info: DatanodeInfoProto,
    pub storage_type: i32,
    pub storage: String,
}

impl Member {
    /// `ip:port` of data transfer, which is also how the nodes of a chain name each other.
    pub fn addr(&self) -> String {
        self.info.id.xfer_addr()
    }
}

/// Who sends to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Chain,
    /// The first to each rack once, and a chain inside of each rack.
    Tree,
    /// The first to all others: that is the one with the leader's IP address, if there is a leader among them.
    Star {
        leader: Option<String>,
    },
}

#[derive(Debug)]
pub(super) struct Nodes {
    members: Vec<Member>,
    /// Those that were dropped, and why.
    faults: Vec<(Member, Fault)>,
}

impl Nodes {
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self { members, faults: Vec::new() }
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(super) fn faults(&self) -> &[(Member, Fault)] {
        &self.faults
    }

    /// Drops those who are to blame.
    pub(super) fn blame(&mut self, broken: Break) {
        // The last first, so that the places of the others stay.
        for (node, fault) in broken.nodes.into_iter().rev() {
            assert!(node < self.members.len(), "node {node} of {} is to blame", self.members.len());
            let member = self.members.remove(node);
            self.faults.push((member, fault));
        }
    }

    /// Puts the nodes into the order of the routing table that is wanted. The nearest stays the first, unless there is
    /// a leader.
    pub(super) fn route(&mut self, shape: &Shape) -> Routing {
        match shape {
            Shape::Chain => Routing::chain(self.members.len()),
            Shape::Star { leader } => {
                let is_leader = |member: &Member| leader.as_ref() == Some(&member.info.id.ip_addr);
                if let Some(place) = self.members.iter().position(is_leader) {
                    self.members[..=place].rotate_right(1);
                }
                Routing::star(self.members.len())
            }
            Shape::Tree => {
                let racks: Vec<&str> = self.members.iter().map(|member| member.info.location()).collect();
                let (order, table) = Routing::tree(&racks);
                self.members = order.into_iter().map(|place| self.members[place].clone()).collect();
                table
            }
        }
    }
}
