//! A datanode: sessions with the metadata servers, reads, recoveries, deletions. Streams are in [`crate::stream`].

use crate::copier::{COPY_COUNT_MAX, Copier, CopyFailure};
use crate::executor::{Notify, Sim};
use crate::metad::{Metad, Refused, told};
use crate::platter::Identity;
use crate::scrubber::Scrubber;
use crate::small::Small;
use crate::volume::{Info, Volume, VolumeError};
use crate::world::{Process, World};
use lead::{NodeUsage, ReportedReplica, ScrubReport};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId, ReplicaState, StorageUsage};

// As in `datad`, but for the catalogue, which comes every ten minutes there.
const HEARTBEAT_EACH: Duration = Duration::from_secs(1);
const BATCH_WAIT: Duration = Duration::from_millis(50);
const CATALOGUE_EACH: Duration = Duration::from_secs(120);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
const CALL_MAX: Duration = Duration::from_secs(60);
const LEFT_OPEN: Duration = Duration::from_secs(10);
pub(crate) const IN_USE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    pub(crate) process: Process,
    pub(crate) node: NodeId,
    pub(crate) usage: NodeUsage,
    pub(crate) put: Vec<ReportedReplica>,
    pub(crate) deleted: Vec<BlockId>,
    pub(crate) stale: Vec<ReportedReplica>,
    pub(crate) copying: BTreeSet<BlockId>,
    pub(crate) copy_failures: Vec<CopyFailure>,
    pub(crate) bad: Vec<(BlockId, Generation)>,
    pub(crate) scrub: Option<(u64, ScrubReport)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    pub(crate) delete: Vec<(BlockId, Generation)>,
    pub(crate) owners: Vec<(BlockId, FileId, ContainerId)>,
    pub(crate) copy: Vec<lead::PlannedCopy>,
    /// All that is here, soon.
    pub(crate) tell_all: bool,
    pub(crate) scrub: Option<u64>,
    /// The server stands by: what it was told besides that the node lives is to be told again, to the leader.
    pub(crate) standby: bool,
    /// In which the leader leads.
    pub(crate) term: u64,
}

impl Orders {
    pub(crate) fn deletions(&self) -> BTreeSet<BlockId> {
        self.delete.iter().map(|(block, _)| *block).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Put(ReportedReplica),
    Deleted,
}

/// What a heartbeat was answered.
#[derive(Clone, Copy, Debug)]
enum Beat {
    StandsBy,
    /// `tell_all`: it wants to be told all that is here.
    Leads {
        term: u64,
        tell_all: bool,
    },
}

/// What one metadata server has not heard yet.
#[derive(Default)]
struct Changes {
    by_block: RefCell<BTreeMap<BlockId, Change>>,
    left: RefCell<BTreeMap<BlockId, Duration>>,
    came: Notify,
}

impl Changes {
    fn add(&self, block: BlockId, change: Change) {
        self.left.borrow_mut().remove(&block);
        self.by_block.borrow_mut().insert(block, change);
    }
}

pub(crate) struct Datanode {
    pub(crate) world: Rc<World>,
    pub(crate) sim: Sim,
    pub(crate) number: usize,
    pub(crate) process: Process,
    /// Since when its registration is refused.
    refused_since: Cell<Option<Duration>>,
    pub(crate) id: NodeId,
    pub(crate) volume: Volume,
    writing: RefCell<BTreeMap<BlockId, usize>>,
    changes: Vec<Changes>,
    to_delete: RefCell<BTreeMap<BlockId, Generation>>,
    /// Being deleted at this moment.
    deleting: Cell<Option<(BlockId, Generation)>>,
    delete_came: Notify,
    /// Orders to delete that were carried out.
    pub(crate) deleted_count: Cell<u64>,
    pub(crate) copier: Copier,
    pub(crate) scrubber: Scrubber,
    pub(crate) small: Small,
    transfers: Cell<u32>,
    /// The latest leader's.
    term: Cell<u64>,
}

/// A stream is at the block for as long as this is there.
pub(crate) struct Writing {
    node: Rc<Datanode>,
    block: BlockId,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.node.transfers.set(self.node.transfers.get() - 1);
        let mut writing = self.node.writing.borrow_mut();
        if let Some(count) = writing.get_mut(&self.block) {
            *count -= 1;
            if *count == 0 {
                writing.remove(&self.block);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFault {
    Refused(VolumeError),
}

impl Datanode {
    pub(crate) fn new(world: Rc<World>, number: usize, volume: Volume) -> Rc<Self> {
        let sim = world.sim.clone();
        let changes = (0..world.plan.metad_count).map(|_| Changes::default()).collect();
        let process = world.process(number, false);
        Rc::new(Self {
            world,
            sim,
            number,
            process,
            refused_since: Cell::default(),
            id: World::node_id(number),
            volume,
            writing: RefCell::default(),
            changes,
            to_delete: RefCell::default(),
            deleting: Cell::default(),
            delete_came: Notify::default(),
            deleted_count: Cell::default(),
            copier: Copier::default(),
            scrubber: Scrubber::default(),
            small: Small::default(),
            transfers: Cell::default(),
            term: Cell::default(),
        })
    }

    pub(crate) fn start(self: &Rc<Self>) {
        let host = World::node_host(self.number);
        for member in 0..self.changes.len() {
            let node = Rc::clone(self);
            self.sim.spawn(host, async move { node.session(member).await });
        }
        let node = Rc::clone(self);
        self.sim.spawn(host, async move { node.delete_always().await });
        let node = Rc::clone(self);
        self.sim.spawn(host, async move { node.scrub_always().await });
        for _ in 0..COPY_COUNT_MAX {
            let node = Rc::clone(self);
            self.sim.spawn(host, async move { node.copy_always().await });
        }
    }

    pub(crate) fn writing(self: &Rc<Self>, block: BlockId) -> Writing {
        *self.writing.borrow_mut().entry(block).or_insert(0) += 1;
        self.transfers.set(self.transfers.get() + 1);
        Writing { node: Rc::clone(self), block }
    }

    pub(crate) fn was_put(&self, block: BlockId) {
        if let Some(info) = self.volume.find(block) {
            for changes in &self.changes {
                changes.add(block, Change::Put(told(&info)));
                changes.came.notify();
            }
        }
    }

    pub(crate) fn was_left(&self, block: BlockId) {
        for changes in &self.changes {
            changes.left.borrow_mut().insert(block, self.sim.now());
        }
    }

    fn left_open(&self, block: BlockId) -> Option<ReportedReplica> {
        let info = self.volume.find(block)?;
        let left = info.state == ReplicaState::Open && !info.has_writer && !self.writing.borrow().contains_key(&block);
        left.then(|| told(&info))
    }

    fn usage(&self) -> NodeUsage {
        let (used_len, free_len) = (self.volume.used_len() as u64, self.volume.free_len() as u64);
        NodeUsage {
            storage: StorageUsage { capacity_len: used_len + free_len, used_len, free_len },
            transfer_count: self.transfers.get(),
        }
    }

    // ── sessions ──

    async fn ask<T: 'static>(
        &self,
        member: usize,
        call: impl FnOnce(Rc<Metad>) -> crate::executor::Boxed<Result<T, Refused>> + 'static,
    ) -> Option<T> {
        let host = World::node_host(self.number);
        let answer = self.world.call_metad(host, member, CALL_MAX, call).await.ok()?;
        match &answer {
            Err(Refused::Superseded) => self.world.node_ends(self.number, "another process took its place"),
            Err(Refused::InUse) => {
                let now = self.sim.now();
                let since = self.refused_since.get().unwrap_or(now);
                self.refused_since.set(Some(since));
                if now >= since + IN_USE_MAX {
                    self.world.node_ends(self.number, "another process has its id");
                }
            }
            Err(_) => {}
            Ok(_) => self.refused_since.set(None),
        }
        answer.ok()
    }

    async fn session(self: Rc<Self>, member: usize) {
        let mut retry = RETRY_FIRST;
        loop {
            let _broken = self.serve(member, &mut retry).await;
            self.sim.sleep(retry).await;
            retry = (retry * 2).min(RETRY_LAST);
        }
    }

    /// From registration to the first failure.
    async fn serve(&self, member: usize, retry: &mut Duration) -> Option<()> {
        let (process, usage) = (self.process, self.usage());
        self.ask(member, move |metad| Box::pin(metad.register(process, usage))).await?;
        *retry = RETRY_FIRST;
        // When this server was told all last, as the leader of which term.
        let mut told = None;
        let changes = &self.changes[member];
        loop {
            match self.heartbeat(member).await? {
                Beat::StandsBy => self.sim.sleep(HEARTBEAT_EACH).await,
                Beat::Leads { term, tell_all } => {
                    let is_due = |(of, at): (u64, Duration)| of != term || self.sim.now() >= at + CATALOGUE_EACH;
                    if tell_all || told.is_none_or(is_due) {
                        self.catalogue(member).await?;
                        told = Some((term, self.sim.now()));
                    }
                    if self.sim.timeout(HEARTBEAT_EACH, changes.came.notified()).await.is_some() {
                        self.sim.sleep(BATCH_WAIT).await;
                    }
                }
            }
        }
    }

    async fn heartbeat(&self, member: usize) -> Option<Beat> {
        let changes = &self.changes[member];
        let taken = std::mem::take(&mut *changes.by_block.borrow_mut());
        let until = self.sim.now().saturating_sub(LEFT_OPEN);
        let due: Vec<BlockId> =
            changes.left.borrow().iter().filter(|(_, since)| **since <= until).map(|(block, _)| *block).collect();
        for block in &due {
            changes.left.borrow_mut().remove(block);
        }
        let mut told = Heartbeat {
            process: self.process,
            node: self.id,
            usage: self.usage(),
            put: Vec::new(),
            deleted: Vec::new(),
            stale: due.iter().filter_map(|block| self.left_open(*block)).collect(),
            copying: self.copier.copying(),
            copy_failures: self.copier.failures(self.sim.now()),
            bad: self.copier.bad(self.sim.now()),
            scrub: self.scrubber.report(),
        };
        for (block, change) in &taken {
            match change {
                Change::Put(replica) => told.put.push(*replica),
                Change::Deleted => told.deleted.push(*block),
            }
        }
        match self.ask(member, move |metad| Box::pin(metad.heartbeat(told))).await {
            Some(Some(orders)) if !orders.standby => {
                let beat = Beat::Leads { term: orders.term, tell_all: orders.tell_all };
                self.obey(orders).await;
                Some(beat)
            }
            answer => {
                for (block, change) in taken {
                    changes.by_block.borrow_mut().entry(block).or_insert(change);
                }
                for block in due {
                    changes.left.borrow_mut().entry(block).or_insert(Duration::ZERO);
                }
                answer.flatten().map(|_| Beat::StandsBy)
            }
        }
    }

    async fn catalogue(&self, member: usize) -> Option<()> {
        let all = self.volume.replicas().into_iter().filter(|info| {
            let writing = info.has_writer || self.writing.borrow().contains_key(&info.identity.block);
            info.state == ReplicaState::Finalized || !writing
        });
        let (process, replicas): (Process, Vec<ReportedReplica>) =
            (self.process, all.map(|info| told(&info)).collect());
        let orders = self.ask(member, move |metad| Box::pin(metad.catalogue(process, replicas))).await??;
        self.obey(orders).await;
        Some(())
    }

    async fn obey(&self, orders: Orders) {
        if orders.term < self.term.get() {
            return; // a leader of before has no say any more
        }
        self.term.set(orders.term);
        for (block, generation) in orders.delete {
            let mut waiting = self.to_delete.borrow_mut();
            let known = waiting.entry(block).or_insert(generation);
            *known = generation.max(*known);
            self.delete_came.notify();
        }
        if let Some(number) = orders.scrub {
            self.scrubber.order(number);
        }
        for order in orders.copy {
            // The metadata server gives no order to delete together with one to copy the same, so these are from
            // before.
            self.to_delete.borrow_mut().remove(&order.block);
            self.copier.order(order);
        }
        for (block, file, home) in orders.owners {
            self.volume.set_owner(block, file, home).await;
        }
    }

    async fn delete_always(self: Rc<Self>) {
        loop {
            let next = self.to_delete.borrow_mut().pop_first();
            let Some((block, generation)) = next else {
                self.delete_came.notified().await;
                continue;
            };
            if mutation::is(Mutation::ForgetDeletions) {
                continue;
            }
            self.deleting.set(Some((block, generation)));
            let deleted = self.volume.delete(block, generation).await == Ok(true);
            self.deleting.set(None);
            if deleted {
                self.deleted_count.set(self.deleted_count.get() + 1);
                self.sim.say(|| format!("node {} deleted {block:?} up to {generation}", self.number));
                self.world.was_deleted(self.number, block);
                self.copier.forget_bad(block);
                for changes in &self.changes {
                    changes.add(block, Change::Deleted);
                }
            }
        }
    }

    pub(crate) fn is_to_delete(&self, block: BlockId, generation: Generation) -> bool {
        let waiting = self.to_delete.borrow().get(&block).is_some_and(|at| *at >= generation);
        waiting || self.deleting.get().is_some_and(|(known, at)| known == block && at >= generation)
    }

    pub(crate) fn is_writing(&self, block: BlockId) -> bool {
        self.writing.borrow().contains_key(&block)
    }

    pub(crate) fn tell_soon(&self) {
        self.changes.iter().for_each(|changes| changes.came.notify());
    }

    // ── calls ──

    pub(crate) async fn visible_len(self: Rc<Self>, block: BlockId, wanted: Generation) -> Result<usize, ReadFault> {
        let info = self.volume.find(block).ok_or(ReadFault::Refused(VolumeError::NotFound))?;
        match info {
            Info { identity: Identity { generation, .. }, .. } if generation < wanted => {
                Err(ReadFault::Refused(VolumeError::Stale))
            }
            Info { state: ReplicaState::WaitingForRecovery, .. } => Err(ReadFault::Refused(VolumeError::State)),
            info => Ok(info.visible),
        }
    }
}
