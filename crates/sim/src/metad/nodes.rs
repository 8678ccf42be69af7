//! What datanodes report, and what they are ordered to do.

use super::{Answer, Metad};
use crate::datanode::{Heartbeat, Orders};
use crate::world::{Process, World, node_of};
use lead::{NodeUsage, ReportedReplica};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use types::{BlockId, ContainerId, FileId, Generation, InodeId, NodeId, ReplicaState};
use wire::node::{self, *};

/// What a server knew before it was asked.
struct Before {
    applied: Option<(u64, u64)>,
    bad: BTreeSet<(BlockId, NodeId)>,
}

fn sender(process: Process) -> Sender {
    let blocks::Incarnation { start_ms, nonce } = process.incarnation;
    Sender { incarnation: Some(Incarnation { start_ms, nonce }), addr: process.xfer_addr() }
}

fn replica(told: &ReportedReplica) -> Replica {
    Replica {
        block: told.block.0,
        generation: told.generation.0,
        len: told.len,
        file: told.file.map_or(0, |file| file.0),
        home: told.home.map_or(0, |home| home.0),
        state: if told.finalized { ReplicaState::Finalized } else { ReplicaState::Open } as i32,
    }
}

fn orders(said: node::Orders) -> Orders {
    let copy = |copy: node::CopyOrder| lead::PlannedCopy {
        block: BlockId(copy.block),
        generation: Generation(copy.generation),
        len: copy.len,
        file: InodeId(copy.file),
        home: ContainerId(copy.home),
        sources: copy.sources.iter().map(|source| World::node_of_addr(&source.addr)).collect(),
        unfit: copy.replaces,
    };
    let owner = |owner: &Owner| -> (BlockId, FileId, ContainerId) {
        (BlockId(owner.block), InodeId(owner.file), ContainerId(owner.home))
    };
    let delete = |delete: &Deletion| (BlockId(delete.block), Generation(delete.generation_at_most));
    Orders {
        delete: said.delete.iter().map(delete).collect(),
        owners: said.owners.iter().map(owner).collect(),
        copy: said.copy.into_iter().map(copy).collect(),
        tell_all: said.tell_all,
        scrub: said.scrub.filter(|scrub| !scrub.stop).map(|scrub| scrub.number),
        standby: said.standby,
        term: said.term,
    }
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

    pub(crate) async fn register(self: Rc<Self>, process: Process, used: NodeUsage) -> Answer<()> {
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
            usage: Some(used.storage.into()),
            version: "simulated".to_owned(),
            pool: String::new(),
            incarnation: sender(process).incarnation,
            advertised: false,
        };
        self.node_call::<RegisterResponse>(process, REGISTER, request).await.map(|_| ())
    }

    /// `None`: the node must register.
    pub(crate) async fn heartbeat(self: Rc<Self>, told: Heartbeat) -> Answer<Option<Orders>> {
        let (frozen_since, before) = (self.world.frozen_since.get(), self.before_orders());
        let Heartbeat { process, node, usage: used, .. } = told;
        let bad = told.bad.iter().map(|(block, generation)| Replica {
            block: block.0,
            generation: generation.0,
            ..Replica::default()
        });
        let failure = |failure: &crate::copier::CopyFailure| CopyFailure {
            block: failure.block.0,
            generation: 0,
            source: failure.source.map_or(String::new(), |node| node.to_string()),
            corrupt: failure.corrupt,
            reason: String::new(),
            number: failure.number,
        };
        let scrub = told.scrub.map(|(number, scrubbed)| ScrubReport {
            number,
            checked_count: scrubbed.checked_count,
            checked_len: scrubbed.checked_len,
            total_count: scrubbed.total_count,
            total_len: scrubbed.total_len,
            bad_count: scrubbed.bad_count,
            ended: scrubbed.ended,
        });
        let request = HeartbeatRequest {
            node: node.to_string(),
            usage: Some(used.storage.into()),
            transfer_count: used.transfer_count,
            put: told.put.iter().map(replica).collect(),
            deleted: told.deleted.iter().map(|block| block.0).collect(),
            stale: told.stale.iter().map(replica).collect(),
            copying: told.copying.iter().map(|block| block.0).collect(),
            copy_failures: told.copy_failures.iter().map(failure).collect(),
            bad: bad.collect(),
            deletions_waiting: 0,
            scrub,
            disks: Vec::new(),
            disk_balance: None,
            sender: Some(sender(process)),
        };
        let answer: node::Orders = self.node_call(process, HEARTBEAT, request).await?;
        if !answer.known {
            return Ok(None);
        }
        let orders = orders(answer);
        if !orders.standby {
            self.world.counts(process);
            self.world.check_orders(node, &orders.delete, frozen_since);
            self.check_deletions(node, &orders.delete, &before);
        }
        Ok(Some(orders))
    }

    fn before_orders(&self) -> Before {
        let bad = self.inspect().map(|leads| leads.repair(|repair| repair.bad().collect()));
        Before { applied: self.applied(), bad: bad.unwrap_or_default() }
    }

    /// A node is not to delete what it should have, nor the only sound copy of a block whose other replicas are known
    /// to be damaged. What changed while the server answered proves nothing.
    fn check_deletions(&self, node: NodeId, delete: &[(BlockId, Generation)], before: &Before) {
        if delete.is_empty() || self.applied() != before.applied {
            return;
        }
        let number = World::node_number(node);
        for (block, up_to) in delete {
            let Some(view) = self.view_of(*block).filter(|view| view.complete && *up_to >= view.generation) else {
                continue;
            };
            let members = self.see_cluster(|cluster| cluster.member_ids(view.home).to_vec()).unwrap_or_default();
            if members.contains(&node) {
                self.world.fail(|| format!("node {number} is to delete {view:?}, which it should have"));
            }
            let has = |other: usize| self.world.has_sound(other, *block, view.generation);
            let is_damage_known = members.iter().any(|member| before.bad.contains(&(*block, *member)));
            let is_only = has(number) && !(0..self.world.plan.node_count).any(|other| other != number && has(other));
            if is_damage_known && is_only {
                self.world.fail(|| format!("node {number} is to delete the only sound copy of {view:?}"));
            }
        }
    }

    /// All that a node has. `None`: it must register.
    pub(crate) async fn catalogue(
        self: Rc<Self>,
        process: Process,
        all: Vec<ReportedReplica>,
    ) -> Answer<Option<Orders>> {
        let frozen_since = self.world.frozen_since.get();
        let id: NodeId = World::node_id(process.number);
        let mut replicas: Vec<Replica> = all.iter().map(replica).collect();
        replicas.sort_unstable_by_key(|replica| replica.block);
        let request = CatalogueRequest {
            node: id.to_string(),
            from: 0,
            through: u64::MAX,
            replicas,
            writing: Vec::new(),
            sender: Some(sender(process)),
        };
        let answer: node::Orders = self.node_call(process, CATALOGUE, request).await?;
        if !answer.known {
            return Ok(None);
        }
        let orders = orders(answer);
        self.world.check_orders(id, &orders.delete, frozen_since);
        Ok(Some(orders))
    }
}
