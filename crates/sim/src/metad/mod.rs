//! A metadata server: the one that ships, with what stands in for its disks, its clock and its wires.

mod administration;
mod calls;
mod home;
mod names;
mod nodes;
mod putting;
mod route;
mod visiting;
mod writing;

use crate::executor::Sim;
use crate::world::World;
use calls::Answered;
use lead::{Cluster, Shortage};
use metad::{Inspection, RowsNow, Server};
use namespace::BlockView;
use security::keys::KeyId;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use types::rows::{MemoryRows, RowsMut};
use types::{BlockId, NodeId};

pub(crate) use calls::{Answer, Refused};
pub(crate) use home::Home;
pub(crate) use names::{Located, Status};
pub(crate) use putting::{LeaseAsk, LeasedBlocks, Put};
pub(crate) use route::{Routed, route};
pub(crate) use writing::Wish;

/// One process.
pub(crate) struct Metad {
    pub(crate) world: Rc<World>,
    pub(crate) sim: Sim,
    pub(crate) server: Server,
    /// Connections of datanodes that are open.
    connected: RefCell<BTreeSet<SocketAddr>>,
}

impl Metad {
    pub(crate) fn new(world: Rc<World>, server: Server) -> Rc<Self> {
        Rc::new(Self { sim: world.sim.clone(), world, server, connected: RefCell::default() })
    }

    /// What it has in its memory, if it takes itself for the leader.
    pub(crate) fn inspect(&self) -> Option<Inspection> {
        self.server.inspect()
    }

    /// The term this member leads in, if it does.
    pub(crate) fn reign(&self) -> Option<u64> {
        self.inspect().map(|leads| leads.term())
    }

    pub(crate) fn rows(&self) -> RowsNow {
        self.server.rows()
    }

    /// All rows of the namespace and the block side, to be looked at again and again.
    pub(crate) fn all_rows(&self) -> MemoryRows {
        let mut all = MemoryRows::default();
        self.rows().read(|rows| {
            for table in namespace::tables::ALL {
                let mut keep = |key: &[u8], value: &[u8]| {
                    all.put(table, key, value.to_vec());
                    ControlFlow::Continue(())
                };
                rows.scan(table, Bound::Unbounded, &mut keep).expect("the store can be read");
            }
        });
        all
    }

    /// Term and index of the last entry it has applied.
    pub(crate) fn applied(&self) -> Option<(u64, u64)> {
        raft::entry_id(&self.rows().position()?)
    }

    /// `None` if this member does not lead.
    pub(crate) fn see_cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> Option<T> {
        self.inspect().map(|leads| leads.cluster(look))
    }

    /// What must hold between the parts of what the leader knows.
    pub(crate) fn check(&self) {
        if let Some(leads) = self.inspect() {
            leads.check();
        }
    }

    pub(crate) fn view_of(&self, block: BlockId) -> Option<BlockView> {
        self.inspect()?.view_of(block).expect("the store can be read")
    }

    pub(crate) fn token_keys(&self) -> Option<(u64, Vec<KeyId>)> {
        self.inspect()?.token_keys()
    }

    pub(crate) fn needed_len_on(&self, node: NodeId) -> u64 {
        self.inspect().map_or(0, |leads| leads.repair(|repair| repair.needed_len_on(node)))
    }

    pub(crate) fn shortage(&self) -> Shortage {
        self.inspect().map(|leads| leads.shortage()).unwrap_or_default()
    }

    /// What stands in the way of rest, for the story.
    pub(crate) fn tell_worries(&self) {
        let Some(leads) = self.inspect() else { return };
        let (missing, bad, lacks) = leads.repair(|repair| {
            let missing: Vec<_> = repair.missing().collect();
            let bad: Vec<_> = repair.bad().collect();
            (missing, bad, repair.lacks().map(|lack| format!("{lack:?}")).collect::<Vec<_>>())
        });
        for missing in missing {
            let image = |number| {
                let platter = self.world.node_platter(number).borrow();
                let found = platter.shelf.get(&missing.block).map(|stored| ("shelved", stored.image()));
                let found = found.or_else(|| Some(("open", platter.open.get(&missing.block)?.image())));
                found.map(|(place, image)| {
                    (number, place, image.identity.generation, image.data.len(), image.sound_len())
                })
            };
            let found: Vec<_> = (0..self.world.plan.node_count).filter_map(image).collect();
            self.sim.say(|| format!("{missing:?}: {:?} on {found:?}", self.view_of(missing.block)));
        }
        bad.iter().for_each(|(block, node)| self.sim.say(|| format!("{block:?} is bad on {node:?}")));
        lacks.into_iter().for_each(|lack| self.sim.say(|| lack));
        leads.cluster(|cluster| {
            for member in cluster.nodes() {
                self.sim.say(|| format!("{member:?}"));
            }
            let joined = cluster.joined_pipelines().filter_map(|id| Some((id, cluster.pipeline(id)?)));
            joined.for_each(|(id, pipeline)| self.sim.say(|| format!("{id}: {pipeline:?}")));
        });
    }
}
