//! What datanodes report, and what they are ordered to do.

use super::{Answer, Metad};
use crate::world::{Process, World, node_of};
use namespace::BlockView;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use types::{BlockId, NodeId, StorageUsage};
use wire::node::*;

/// What a server knew before it was asked.
struct Before {
    applied: Option<(u64, u64)>,
    bad: BTreeSet<(BlockId, NodeId)>,
}

fn sender(process: Process) -> Sender {
    let blocks::Incarnation { start_ms, nonce } = process.incarnation;
    Sender { incarnation: Some(Incarnation { start_ms, nonce }), addr: process.xfer_addr() }
}

impl Metad {
    /// The connection of a process to this server.
    fn peer(process: Process) -> SocketAddr {
        let ip: IpAddr = process.ip().parse().expect("an address");
        (ip, 10_000 + process.incarnation.nonce as u16).into()
    }

    /// A process has ended, and the system has closed its connection.
    pub(crate) fn hung_up(&self, process: Process) {
        if self.connected.borrow_mut().remove(&Self::peer(process)) {
            self.server.hung_up(Self::peer(process));
        }
    }

    async fn node_call<A: super::Answered>(
        &self,
        process: Process,
        method: &str,
        request: impl prost::Message,
    ) -> Answer<A> {
        self.ask_as(Self::peer(process), NODE_PROTOCOL, PROTOCOL_VERSION, method, None, request).await
    }

    pub(crate) async fn register(self: Rc<Self>, process: Process, used: StorageUsage) -> Answer<RegisterResponse> {
        // A process registers again over the connection that it has.
        if self.connected.borrow_mut().insert(Self::peer(process)) {
            self.server.opened(Self::peer(process));
        }
        let node = node_of(process);
        let request = RegisterRequest {
            node: node.id.to_string(),
            ip: node.ip,
            host: node.host,
            xfer_port: node.xfer_port.into(),
            ipc_port: node.ipc_port.into(),
            info_port: node.info_port.into(),
            storage: node.storage,
            rack: node.rack,
            usage: Some(used.into()),
            version: "simulated".to_owned(),
            pool: String::new(),
            incarnation: sender(process).incarnation,
            advertised: false,
            outside: None,
        };
        self.node_call(process, REGISTER, request).await
    }

    pub(crate) async fn heartbeat(self: Rc<Self>, process: Process, told: HeartbeatRequest) -> Answer<Orders> {
        let (frozen_since, before) = (self.world.frozen_since.get(), self.before_orders());
        let id = World::node_id(process.number);
        let request = HeartbeatRequest { node: id.to_string(), sender: Some(sender(process)), ..told };
        let orders: Orders = self.node_call(process, HEARTBEAT, request).await?;
        if orders.known && !orders.standby {
            self.world.counts(process);
            self.world.check_orders(id, &orders.delete, frozen_since);
            self.check_deletions(id, &orders.delete, &before);
        }
        Ok(orders)
    }

    fn before_orders(&self) -> Before {
        let bad = self.inspect().map(|leads| leads.repair(|repair| repair.bad().collect()));
        Before { applied: self.applied(), bad: bad.unwrap_or_default() }
    }

    /// A node is not to delete what it should have, nor the only sound copy of a block whose other replicas are known
    /// to be damaged. What changed while the server answered proves nothing.
    fn check_deletions(&self, node: NodeId, delete: &[Deletion], before: &Before) {
        if delete.is_empty() || self.applied() != before.applied {
            return;
        }
        let number = World::node_number(node);
        for Deletion { block, generation_at_most } in delete {
            let block = BlockId(*block);
            let is_to_go = |view: &BlockView| view.complete && *generation_at_most >= view.generation.0;
            let Some(view) = self.view_of(block).filter(is_to_go) else { continue };
            let members = self.see_cluster(|cluster| cluster.member_ids(view.home).to_vec()).unwrap_or_default();
            if members.contains(&node) {
                self.world.fail(|| format!("node {number} is to delete {view:?}, which it should have"));
            }
            let has = |other: usize| self.world.has_sound(other, block, view.generation);
            let is_damage_known = members.iter().any(|member| before.bad.contains(&(block, *member)));
            let is_only = has(number) && !(0..self.world.plan.node_count).any(|other| other != number && has(other));
            if is_damage_known && is_only {
                self.world.fail(|| format!("node {number} is to delete the only sound copy of {view:?}"));
            }
        }
    }

    /// A page of all that a node has.
    pub(crate) async fn catalogue(self: Rc<Self>, process: Process, page: CatalogueRequest) -> Answer<Orders> {
        let frozen_since = self.world.frozen_since.get();
        let id = World::node_id(process.number);
        let request = CatalogueRequest { node: id.to_string(), sender: Some(sender(process)), ..page };
        let orders: Orders = self.node_call(process, CATALOGUE, request).await?;
        self.world.check_orders(id, &orders.delete, frozen_since);
        Ok(orders)
    }
}
