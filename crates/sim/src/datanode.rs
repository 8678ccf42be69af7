//! A datanode: the shipped [`datanode::Datanode`] with sessions, deletions and calls around it, as `datad` has them.
//! Streams are in [`crate::stream`], copies in [`crate::copier`].

use crate::executor::{Notify, Sim};
use crate::metad::{Metad, Refused};
use crate::platter::Identity;
use crate::scrubber::Scrubber;
use crate::small::Small;
use crate::volume::{Info, Volume, VolumeError};
use crate::world::{Process, World};
use datanode::catalogue::{self, PAGE_COUNT};
use datanode::session::{BATCH_WAIT, CALL_WAIT_OF_SEVERAL, HEARTBEAT_EACH, IN_USE_MAX, LEFT_OPEN};
use datanode::{Attempts, Due, Held, Rest, Session, Standing, Step};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, InodeId, NodeId, StorageUsage};
use wire::node::{CatalogueRequest, Deletion, HeartbeatRequest, Orders, RegisterResponse};

/// More often than in production, so that a run of some minutes has several.
const CATALOGUE_EACH: Duration = Duration::from_secs(120);
/// As `rpc` waits for a server that is alone.
const CALL_MAX: Duration = Duration::from_secs(60);
/// A node has one disk.
const DISK: usize = 0;

/// Why a session has ended.
enum Broken {
    /// No answer, or one that leaves the node where it is.
    Call,
    /// The server does not know this node.
    Unknown,
    /// Another process with this node's id is alive.
    InUse,
    /// Another process has taken this one's place.
    Superseded,
}

pub(crate) struct Datanode {
    pub(crate) world: Rc<World>,
    pub(crate) sim: Sim,
    pub(crate) number: usize,
    pub(crate) process: Process,
    pub(crate) id: NodeId,
    pub(crate) volume: Volume,
    writing: RefCell<BTreeMap<BlockId, usize>>,
    /// What it has to report and to carry out.
    node: RefCell<datanode::Datanode>,
    report_due: Notify,
    deletions_due: Notify,
    /// Orders to delete that were carried out.
    pub(crate) deleted_count: Cell<u64>,
    pub(crate) scrubber: Scrubber,
    pub(crate) small: Small,
    transfers: Cell<u32>,
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
        let mut node = datanode::Datanode::new(DISK + 1, world.plan.metad_count);
        if world.plan.scripted {
            // There is no leader to tell it.
            node.tokens.hear(&wire::node::TokenRules::default()).expect("no keys come along");
        }
        let node = RefCell::new(node);
        let process = world.process(number, false);
        Rc::new(Self {
            world,
            sim,
            number,
            process,
            id: World::node_id(number),
            volume,
            writing: RefCell::default(),
            node,
            report_due: Notify::default(),
            deletions_due: Notify::default(),
            deleted_count: Cell::default(),
            scrubber: Scrubber::default(),
            small: Small::default(),
            transfers: Cell::default(),
        })
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.sim.spawn(World::node_host(self.number), task);
    }

    pub(crate) fn start(self: &Rc<Self>) {
        for member in 0..self.world.plan.metad_count {
            let node = Rc::clone(self);
            self.spawn(async move { node.session(member).await });
        }
        let node = Rc::clone(self);
        self.spawn(async move { node.delete_always().await });
    }

    /// As `datad::node_lock`.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut datanode::Datanode) -> T) -> T {
        let mut node = self.node.borrow_mut();
        let outcome = change(&mut node);
        node.check();
        let Due { report, deleters } = node.take_due();
        drop(node);
        if report {
            self.report_soon();
        }
        if !deleters.is_empty() {
            self.deletions_due.notify();
        }
        outcome
    }

    pub(crate) fn report_soon(&self) {
        self.report_due.notify();
    }

    pub(crate) fn held(&self, block: BlockId) -> Option<Held> {
        self.volume.find(block).as_ref().map(held)
    }

    pub(crate) fn writing(self: &Rc<Self>, block: BlockId) -> Writing {
        *self.writing.borrow_mut().entry(block).or_insert(0) += 1;
        self.transfers.set(self.transfers.get() + 1);
        Writing { node: Rc::clone(self), block }
    }

    pub(crate) fn was_put(&self, block: BlockId) {
        if let Some(held) = self.held(block) {
            self.with(|node| node.was_put(&held));
        }
    }

    pub(crate) fn was_left(&self, block: BlockId) {
        self.with(|node| node.was_left(self.sim.now(), block));
    }

    fn usage(&self) -> StorageUsage {
        let (used_len, free_len) = (self.volume.used_len() as u64, self.volume.free_len() as u64);
        StorageUsage { capacity_len: used_len + free_len, used_len, free_len }
    }

    // ── sessions ──

    async fn ask<T: 'static>(
        &self,
        member: usize,
        call: impl FnOnce(Rc<Metad>) -> crate::executor::Boxed<Result<T, Refused>> + 'static,
    ) -> Result<T, Broken> {
        let host = World::node_host(self.number);
        let wait = if self.with(|node| node.servers.count()) > 1 { CALL_WAIT_OF_SEVERAL } else { CALL_MAX };
        let answer = self.world.call_metad(host, member, wait, call).await.map_err(|_| Broken::Call)?;
        answer.map_err(|refused| match refused {
            Refused::Superseded => Broken::Superseded,
            Refused::InUse => Broken::InUse,
            _ => Broken::Call,
        })
    }

    async fn session(self: Rc<Self>, member: usize) {
        let mut attempts = Attempts::default();
        loop {
            let Err(broken) = self.serve(member, &mut attempts).await;
            self.with(|node| node.servers.note(member, false));
            match broken {
                Broken::InUse => {
                    if !attempts.may_try_again(self.sim.now(), IN_USE_MAX) {
                        self.world.node_ends(self.number, "another process has its id");
                    }
                }
                Broken::Superseded => self.world.node_ends(self.number, "another process took its place"),
                Broken::Call | Broken::Unknown => attempts.failed(),
            }
            let server_count = self.with(|node| node.servers.count());
            self.sim.sleep(attempts.wait(server_count)).await;
        }
    }

    /// From registration to the first failure.
    async fn serve(self: &Rc<Self>, member: usize, attempts: &mut Attempts) -> Result<Infallible, Broken> {
        let mut session = Session::new(member, self.register(member).await?, CATALOGUE_EACH);
        self.tell_all_due(&mut session).await?;
        attempts.succeeded();
        loop {
            let now = self.heartbeat(member, session.standing(), true).await?;
            session.is_still(now);
            if !self.tell_all_due(&mut session).await? {
                self.sim.sleep(HEARTBEAT_EACH).await;
            } else if self.sim.timeout(HEARTBEAT_EACH, self.report_due.notified()).await.is_some() {
                self.sim.sleep(BATCH_WAIT).await;
            }
        }
    }

    /// Tells all that is here, if that is due. Answers whether the server leads.
    async fn tell_all_due(self: &Rc<Self>, session: &mut Session) -> Result<bool, Broken> {
        loop {
            match self.with(|node| node.next(session, self.sim.now())) {
                Step::Greet { .. } => {}
                Step::Catalogue => {
                    self.catalogue(session.number()).await?;
                    session.told_all(self.sim.now());
                }
                Step::Rest { leads } => return Ok(leads),
            }
        }
    }

    /// No leader that is believed has older keys, or others.
    fn keys_refused(&self, why: &str) {
        self.world.fail(|| format!("node {} does not take the leader's keys: {why}", self.number));
    }

    async fn register(self: &Rc<Self>, member: usize) -> Result<Standing, Broken> {
        let (process, usage) = (self.process, self.usage());
        let registered = self.ask(member, move |metad| Box::pin(metad.register(process, usage))).await?;
        self.with(|node| node.registered(&registered)).unwrap_or_else(|why| self.keys_refused(&why));
        let RegisterResponse { standby, term, new, .. } = registered;
        let standing = Standing::of(standby, term);
        if new { self.heartbeat(member, standing, false).await } else { Ok(standing) }
    }

    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    async fn heartbeat(
        self: &Rc<Self>,
        member: usize,
        standing: Standing,
        sends_changes: bool,
    ) -> Result<Standing, Broken> {
        let (process, now) = (self.process, self.sim.now());
        let (usage, transfer_count) = (Some(self.usage().into()), self.transfers.get());
        if !standing.leads() {
            let request = HeartbeatRequest { usage, transfer_count, ..HeartbeatRequest::default() };
            let orders = self.ask(member, move |metad| Box::pin(metad.heartbeat(process, request))).await?;
            return self.answered(member, orders).await;
        }
        let mut told = self.with(|node| node.begin_heartbeat(now, sends_changes, LEFT_OPEN));
        let left = told.left().iter().filter_map(|block| self.held(*block));
        let left: Vec<Held> = left.filter(|held| held.is_left_open(self.is_writing(held.block))).collect();
        let (changes, copy_count) =
            self.with(|node| (node.heartbeat(now, &mut told, &left), node.copies.running_count() as u32));
        let transfer_count = transfer_count + copy_count;
        let request = HeartbeatRequest { usage, transfer_count, scrub: self.scrubber.report(), ..changes };
        match self.ask(member, move |metad| Box::pin(metad.heartbeat(process, request))).await {
            Ok(orders) if orders.known => {
                self.with(|node| node.answered(told, !orders.standby));
                self.answered(member, orders).await
            }
            refused => {
                self.with(|node| node.unanswered(told));
                Err(refused.err().unwrap_or(Broken::Unknown))
            }
        }
    }

    /// Reports all replicas, in pages.
    async fn catalogue(self: &Rc<Self>, member: usize) -> Result<(), Broken> {
        let mut from = BlockId(0);
        loop {
            let here = self.volume.replicas().into_iter().filter(|info| info.identity.block >= from);
            let here: Vec<Held> = here.take(PAGE_COUNT).map(|info| held(&info)).collect();
            let page: CatalogueRequest = catalogue::page(from, &here, PAGE_COUNT, |block| self.is_writing(block));
            let (process, through) = (self.process, page.through);
            let orders = self.ask(member, move |metad| Box::pin(metad.catalogue(process, page))).await?;
            self.answered(member, orders).await?;
            match through.checked_add(1) {
                Some(next) => from = BlockId(next),
                None => return Ok(()),
            }
        }
    }

    /// What the server is, after its orders were taken.
    async fn answered(self: &Rc<Self>, member: usize, orders: Orders) -> Result<Standing, Broken> {
        if !orders.known {
            return Err(Broken::Unknown);
        }
        let standing = Standing::of_answer(&orders);
        let places: Vec<(usize, Deletion)> = orders.delete.iter().map(|delete| (DISK, *delete)).collect();
        let Rest { owners, scrub, disk_balance: _, keys_refused } = self.with(|node| {
            node.servers.hear(member, &orders);
            node.obey(self.sim.now(), orders, places)
        });
        keys_refused.iter().for_each(|why| self.keys_refused(why));
        self.begin_copies();
        if let Some(scrub) = scrub {
            self.order_scrub(scrub);
        }
        for owner in owners {
            self.volume.set_owner(BlockId(owner.block), InodeId(owner.file), ContainerId(owner.home)).await;
        }
        Ok(standing)
    }

    async fn delete_always(self: Rc<Self>) {
        loop {
            let batch = self.with(|node| node.deletions.take(DISK));
            if batch.is_empty() {
                self.deletions_due.notified().await;
                continue;
            }
            for (block, generation) in batch {
                if self.volume.delete(block, generation).await == Ok(true) {
                    self.deleted_count.set(self.deleted_count.get() + 1);
                    self.sim.say(|| format!("node {} deleted {block:?} up to {generation}", self.number));
                    self.world.was_deleted(self.number, block);
                    self.with(|node| node.was_deleted(block));
                }
            }
            self.with(|node| node.deletions.done(DISK));
        }
    }

    pub(crate) fn is_to_delete(&self, block: BlockId, generation: Generation) -> bool {
        self.with(|node| node.deletions.is_ordered(block, generation))
    }

    pub(crate) fn is_writing(&self, block: BlockId) -> bool {
        self.writing.borrow().contains_key(&block)
    }

    // ── calls ──

    pub(crate) async fn visible_len(self: Rc<Self>, block: BlockId, wanted: Generation) -> Result<usize, ReadFault> {
        let info = self.volume.find(block).ok_or(ReadFault::Refused(VolumeError::NotFound))?;
        match info {
            Info { identity: Identity { generation, .. }, .. } if generation < wanted => {
                Err(ReadFault::Refused(VolumeError::Stale))
            }
            Info { state: types::ReplicaState::WaitingForRecovery, .. } => Err(ReadFault::Refused(VolumeError::State)),
            info => Ok(info.visible),
        }
    }
}

/// A replica as [`datanode::Datanode`] knows it.
pub(crate) fn held(info: &Info) -> Held {
    let Identity { block, generation, file, home } = info.identity;
    let (file, home) = (file.unwrap_or(InodeId(0)), home.unwrap_or(ContainerId(0)));
    Held { block, generation, len: info.len as u64, file, home, state: info.state, has_writer: info.has_writer }
}
