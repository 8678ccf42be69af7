//! Copies of replicas that the metadata server ordered, and what a node says of its replicas when it is asked; as
//! `datad`'s copier and comparing.

use crate::datanode::Datanode;
use crate::executor::Notify;
use crate::platter::Identity;
use crate::reads::Ask;
use crate::volume::VolumeError;
use crate::world::World;
use lead::PlannedCopy;
use namespace::BlockView;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, Fitness, Generation, NodeId, ReplicaState};
use xfer::fault;
use xfer::read::Extent;

// As in `datad`.
pub(crate) const COPY_COUNT_MAX: usize = 2;
const CONNECT: Duration = Duration::from_secs(2);
const SILENT: Duration = Duration::from_secs(30);
/// A failure is told so long: several heartbeats, should an answer be lost or the leader change.
const TOLD_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct CopyFailure {
    pub(crate) number: u64,
    pub(crate) block: BlockId,
    /// Who is to blame, if it is not the node itself.
    pub(crate) source: Option<NodeId>,
    pub(crate) corrupt: bool,
}

#[derive(Default)]
pub(crate) struct Copier {
    waiting: RefCell<VecDeque<PlannedCopy>>,
    /// Waiting or under way.
    known: RefCell<BTreeSet<BlockId>>,
    came: Notify,
    failures: RefCell<VecDeque<(Duration, CopyFailure)>>,
    failure_count: Cell<u64>,
    bad: RefCell<VecDeque<(Duration, BlockId, Generation)>>,
}

/// Why nothing came of it.
enum Fault {
    Source { corrupt: bool },
    Own,
}

impl Copier {
    pub(crate) fn order(&self, order: PlannedCopy) {
        if self.known.borrow_mut().insert(order.block) {
            self.waiting.borrow_mut().push_back(order);
            self.came.notify();
        }
    }

    pub(crate) fn copying(&self) -> BTreeSet<BlockId> {
        self.known.borrow().clone()
    }

    pub(crate) fn failures(&self, now: Duration) -> Vec<CopyFailure> {
        self.failures.borrow_mut().retain(|(at, _)| now.saturating_sub(*at) <= TOLD_FOR);
        self.failures.borrow().iter().map(|(_, failure)| failure.clone()).collect()
    }

    pub(crate) fn bad(&self, now: Duration) -> Vec<(BlockId, Generation)> {
        self.bad.borrow_mut().retain(|(at, ..)| now.saturating_sub(*at) <= TOLD_FOR);
        self.bad.borrow().iter().map(|(_, block, generation)| (*block, *generation)).collect()
    }

    /// A damaged replica is no more.
    pub(crate) fn forget_bad(&self, block: BlockId) {
        self.bad.borrow_mut().retain(|(_, known, _)| *known != block);
    }

    fn failed(&self, now: Duration, block: BlockId, source: Option<NodeId>, corrupt: bool) {
        let number = self.failure_count.get() + 1;
        self.failure_count.set(number);
        self.failures.borrow_mut().push_back((now, CopyFailure { number, block, source, corrupt }));
    }
}

impl Datanode {
    pub(crate) async fn copy_always(self: Rc<Self>) {
        loop {
            let next = self.copier.waiting.borrow_mut().pop_front();
            let Some(order) = next else {
                self.copier.came.notified().await;
                continue;
            };
            let copied = self.copy(&order).await;
            self.copier.known.borrow_mut().remove(&order.block);
            self.sim.say(|| format!("node {} copies {order:?}: {copied}", self.number));
            if copied {
                if order.unfit {
                    self.copier.forget_bad(order.block);
                }
                self.was_put(order.block);
            } else {
                self.tell_soon();
            }
        }
    }

    /// Tries one source after the other.
    async fn copy(self: &Rc<Self>, order: &PlannedCopy) -> bool {
        let block = order.block;
        if self.is_to_delete(block, order.generation) {
            self.copier.failed(self.sim.now(), block, None, false);
            return false;
        }
        if self.is_here(order) {
            return true;
        }
        if self.is_writing(block) {
            self.copier.failed(self.sim.now(), block, None, false);
            return false;
        }
        // One that was never finalized makes room when the source was read.
        let before = self.volume.find(block).filter(|info| info.state == ReplicaState::Finalized);
        let before = before.map(|info| info.identity.generation);
        let deleted_count = self.deleted_count.get();
        for source in &order.sources {
            let copied = self.copy_from(order, *source).await;
            // What was here goes by an order to delete it, or for something newer, and by nothing else.
            if before.is_some() && self.volume.find(block).is_none() && self.deleted_count.get() == deleted_count {
                self.world.fail(|| format!("node {} lost {block:?} at {before:?} to a copy that failed", self.number));
            }
            match copied {
                Ok(()) => return true,
                Err(Fault::Source { corrupt }) => self.copier.failed(self.sim.now(), block, Some(*source), corrupt),
                Err(Fault::Own) => {
                    self.copier.failed(self.sim.now(), block, None, false);
                    return false;
                }
            }
        }
        if order.sources.is_empty() {
            self.copier.failed(self.sim.now(), block, None, false);
        }
        false
    }

    fn is_here(&self, order: &PlannedCopy) -> bool {
        self.volume.find(order.block).is_some_and(|info| {
            info.state == ReplicaState::Finalized
                && info.identity.generation >= order.generation
                && info.len as u64 >= order.len
                && !order.unfit
        })
    }

    async fn copy_from(self: &Rc<Self>, order: &PlannedCopy, source: NodeId) -> Result<(), Fault> {
        let blame = |corrupt| Fault::Source { corrupt };
        let PlannedCopy { block, generation, file, home, .. } = *order;
        if mutation::is(Mutation::CopyInPlace) {
            self.volume.remove_older(block, generation).await;
        }
        let (host, number) = (World::node_host(self.number), World::node_number(source));
        let ask = Ask { block, generation, from: 0, end: order.len, extent: Extent::WholeChunks };
        let read = self.world.read_replica(host, number, ask, (CONNECT, SILENT)).await;
        let bytes = read.map_err(|fault| {
            self.sim.say(|| format!("node {} gets no {block:?} of node {number}: {fault}", self.number));
            blame(matches!(fault, fault::Fault::Corrupt { .. }))
        })?;
        let identity = Identity { block, generation, file: Some(file), home: Some(home) };
        self.volume.put_copy(identity, &bytes, order.unfit).await.map_err(|error| {
            self.sim.say(|| format!("node {} cannot put a copy of {block:?}: {error:?}", self.number));
            Fault::Own
        })?;
        if self.volume.verify(block).await != Ok(true) {
            let _gone = self.volume.delete(block, generation).await;
            return Err(Fault::Own);
        }
        self.world.was_copied(self.number, block);
        Ok(())
    }

    // ── questions ──

    pub(crate) fn fitness(&self, wanted: &BlockView) -> Fitness {
        let Some(info) = self.volume.find(wanted.block) else { return Fitness::Absent };
        let have = info.identity.generation;
        let is_whole = match info.state {
            ReplicaState::Finalized => info.len as u64 >= wanted.len,
            ReplicaState::Open if info.has_writer || have > wanted.generation => return Fitness::Busy,
            ReplicaState::Open | ReplicaState::WaitingForRecovery => false,
            ReplicaState::Copying => return Fitness::Absent,
        };
        match () {
            () if have < wanted.generation => Fitness::Absent,
            () if self.is_to_delete(wanted.block, have) => Fitness::Absent,
            () if is_whole => Fitness::Fit,
            () => Fitness::Unfit,
        }
    }

    pub(crate) async fn verify(&self, block: BlockId, generation: Generation) -> Fitness {
        match self.volume.find(block) {
            Some(info) if info.identity.generation >= generation => match self.volume.verify(block).await {
                Ok(true) => Fitness::Fit,
                Ok(false) => {
                    let fell = self.world.falls(self.number) > 0 || self.world.is_spoiled(self.number, block);
                    if info.state == ReplicaState::Open && !fell {
                        self.world
                            .fail(|| format!("node {} calls its open {block:?} damaged, which it is not", self.number));
                    }
                    self.copier.bad.borrow_mut().push_back((self.sim.now(), block, info.identity.generation));
                    self.tell_soon();
                    Fitness::Unfit
                }
                Err(VolumeError::NotFound) => Fitness::Absent,
                Err(_) => Fitness::Unfit,
            },
            _ => Fitness::Absent,
        }
    }
}
