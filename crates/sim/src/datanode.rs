//! A datanode: the shipped [`datanode::Datanode`] with sessions, deletions and calls around it, as `datad` has them.
//! Streams are in [`crate::stream`], copies in [`crate::copier`].

use crate::executor::{Notify, Sim, race};
use crate::ledger::{Change, Ledger};
use crate::metad::{Metad, Refused};
use crate::platter::Identity;
use crate::scrubber::Scrubber;
use crate::small::Small;
use crate::volume::{Info, Volume, VolumeError};
use crate::world::{Process, World};
use datanode::catalogue;
use datanode::session::{BATCH_WAIT, CALL_WAIT_OF_SEVERAL, HEARTBEAT_EACH, IN_USE_MAX, LEFT_OPEN};
use datanode::{Attempts, Due, Held, Rest, Session, Standing, Step};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, InodeId, NodeId, StorageUsage};
use wire::node::{CatalogueRequest, Deletion, HeartbeatRequest, Orders, RegisterResponse};

/// As `rpc` waits for a server that is alone.
const CALL_MAX: Duration = Duration::from_secs(60);
/// A node has one disk.
const DISK: usize = 0;
/// From one second session with a server to the next, at most.
const SECOND_EACH: Duration = Duration::from_secs(30);
const SECOND_MAX: Duration = Duration::from_secs(6);

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
    /// And what it is held against.
    ledger: RefCell<Ledger>,
    /// A session whose connection breaks as it tells of changes: nobody hears of them, nor does the node of that.
    breaks: Cell<Option<usize>>,
    /// It has said goodbye: its sessions are over, as those of `datad` then.
    is_ending: Cell<bool>,
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
            ledger: RefCell::default(),
            breaks: Cell::default(),
            is_ending: Cell::default(),
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
            self.spawn(async move { node.session(member, member).await });
        }
        if self.world.plan.second_sessions {
            let node = Rc::clone(self);
            self.spawn(async move { node.second_sessions().await });
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
            self.ledger.borrow_mut().changed(self.sim.now(), block, Change::Put(held.report()));
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
        if self.is_ending.get() {
            std::future::pending::<()>().await;
        }
        self.tell(member, call).await
    }

    async fn tell<T: 'static>(
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

    /// Now and then one more session with a server that the node has a session with, as when it is known by two
    /// addresses; it ends for good, whatever it is at.
    async fn second_sessions(self: Rc<Self>) {
        for number in self.world.plan.metad_count.. {
            self.sim.sleep(self.sim.between(Duration::ZERO, SECOND_EACH)).await;
            let member = self.sim.below(self.world.plan.metad_count);
            let (time, more) =
                (self.sim.between(Duration::ZERO, SECOND_MAX), self.sim.between(Duration::ZERO, SECOND_MAX * 3));
            let session = Rc::clone(&self).session(number, member);
            let ended = async {
                self.sim.sleep(time).await;
                self.breaks.set(Some(number));
                self.sim.sleep(more).await;
            };
            race(session, ended).await;
            self.breaks.set(None);
            self.ledger.borrow_mut().unheard(number);
            self.with(|node| node.session_ended(number));
        }
    }

    /// `number`: which of the node's sessions it is.
    async fn session(self: Rc<Self>, number: usize, member: usize) {
        let mut attempts = Attempts::default();
        loop {
            let Err(broken) = self.serve(number, member, &mut attempts).await;
            self.with(|node| node.servers.note(number, false));
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
    async fn serve(
        self: &Rc<Self>,
        number: usize,
        member: usize,
        attempts: &mut Attempts,
    ) -> Result<Infallible, Broken> {
        let mut session = Session::new(number, self.register(number, member).await?, self.world.plan.catalogue_each);
        self.tell_all_due(&mut session, member).await?;
        attempts.succeeded();
        loop {
            let now = self.heartbeat((number, member), session.standing(), true).await?;
            session.is_still(now);
            if !self.tell_all_due(&mut session, member).await? {
                self.sim.sleep(HEARTBEAT_EACH).await;
            } else if self.sim.timeout(HEARTBEAT_EACH, self.report_due.notified()).await.is_some() {
                self.sim.sleep(BATCH_WAIT).await;
            }
        }
    }

    /// Tells all that is here, if that is due. Answers whether the server leads.
    async fn tell_all_due(self: &Rc<Self>, session: &mut Session, member: usize) -> Result<bool, Broken> {
        loop {
            match self.with(|node| node.next(session, self.sim.now())) {
                Step::Greet { .. } => {}
                Step::Catalogue => {
                    self.catalogue(session, member).await?;
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

    async fn register(self: &Rc<Self>, number: usize, member: usize) -> Result<Standing, Broken> {
        let (process, usage) = (self.process, self.usage());
        let registered = self.ask(member, move |metad| Box::pin(metad.register(process, usage))).await?;
        self.with(|node| node.registered(&registered)).unwrap_or_else(|why| self.keys_refused(&why));
        let RegisterResponse { standby, term, new, .. } = registered;
        let standing = Standing::of(standby, term);
        if new { self.heartbeat((number, member), standing, false).await } else { Ok(standing) }
    }

    /// Tells each server that the process ends; the one that leads writes it down.
    pub(crate) async fn goodbye(&self, leaving_ms: u64) {
        let process = self.process;
        self.is_ending.set(true);
        for member in 0..self.world.plan.metad_count {
            let request = HeartbeatRequest { leaving_ms, ..HeartbeatRequest::default() };
            _ = self.tell(member, move |metad| Box::pin(metad.heartbeat(process, request))).await;
        }
    }

    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    async fn heartbeat(
        self: &Rc<Self>,
        (number, member): (usize, usize),
        standing: Standing,
        sends_changes: bool,
    ) -> Result<Standing, Broken> {
        let (process, now) = (self.process, self.sim.now());
        let (usage, transfer_count) = (Some(self.usage().into()), self.transfers.get());
        if !standing.leads() {
            let request = HeartbeatRequest { usage, transfer_count, ..HeartbeatRequest::default() };
            let orders = self.ask(member, move |metad| Box::pin(metad.heartbeat(process, request))).await?;
            return self.answered(number, orders).await;
        }
        let mut told = self.with(|node| node.begin_heartbeat(now, sends_changes, LEFT_OPEN));
        let left = told.left().iter().filter_map(|block| self.held(*block));
        let left: Vec<Held> = left.filter(|held| held.is_left_open(self.is_writing(held.block))).collect();
        let (changes, copy_count) =
            self.with(|node| (node.heartbeat(now, &mut told, &left), node.copies.running_count() as u32));
        let transfer_count = transfer_count + copy_count;
        let request = HeartbeatRequest { usage, transfer_count, scrub: self.scrubber.report(), ..changes };
        if let Err(why) = self.ledger.borrow_mut().telling(number, &request) {
            self.world.fail(|| format!("node {}: {why}", self.number));
        }
        let breaks = self.breaks.get() == Some(number) && !(request.put.is_empty() && request.deleted.is_empty());
        let answer = if breaks {
            self.sim.say(|| format!("node {}: a heartbeat of session {number} is lost", self.number));
            self.sim.sleep(self.sim.between(Duration::ZERO, SECOND_MAX)).await;
            Err(Broken::Call)
        } else {
            self.ask(member, move |metad| Box::pin(metad.heartbeat(process, request))).await
        };
        match answer {
            Ok(orders) if orders.known => {
                self.with(|node| node.answered(told, !orders.standby));
                self.heard(number, now, sends_changes, &orders);
                self.answered(number, orders).await
            }
            refused => {
                self.ledger.borrow_mut().unheard(number);
                self.with(|node| node.unanswered(told));
                Err(refused.err().unwrap_or(Broken::Unknown))
            }
        }
    }

    /// A heartbeat that began at `begun` was answered: the one that leads has heard of what changed long before.
    fn heard(&self, number: usize, begun: Duration, sends_changes: bool, orders: &Orders) {
        let mut ledger = self.ledger.borrow_mut();
        if orders.standby || ledger.is_of_before(orders.term) {
            return ledger.unheard(number);
        }
        ledger.heard(number);
        let wait = if self.world.plan.metad_count > 1 { CALL_WAIT_OF_SEVERAL } else { CALL_MAX };
        if let Some(why) = ledger.overdue(begun, wait).filter(|_| sends_changes) {
            self.world.fail(|| format!("node {}: {why}", self.number));
        }
    }

    /// Reports all replicas, in pages.
    async fn catalogue(self: &Rc<Self>, session: &Session, member: usize) -> Result<(), Broken> {
        let (mark, page_count) = (self.ledger.borrow().mark(), self.world.plan.page_count);
        let (mut from, mut is_heard) = (BlockId(0), true);
        loop {
            let here = self.volume.replicas().into_iter().filter(|info| info.identity.block >= from);
            let here: Vec<Held> = here.take(page_count).map(|info| held(&info)).collect();
            let page: CatalogueRequest = catalogue::page(from, &here, page_count, |block| self.is_writing(block));
            let (process, through) = (self.process, page.through);
            self.ledger.borrow_mut().page(from, BlockId(through), mark);
            let orders = self.ask(member, move |metad| Box::pin(metad.catalogue(process, page))).await?;
            is_heard &= self.answered(session.number(), orders).await? == session.standing();
            match through.checked_add(1) {
                Some(next) => from = BlockId(next),
                None => {
                    if is_heard {
                        self.ledger.borrow_mut().heard_all(mark);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// What the server is, after its orders were taken.
    async fn answered(self: &Rc<Self>, number: usize, orders: Orders) -> Result<Standing, Broken> {
        if !orders.known {
            return Err(Broken::Unknown);
        }
        let standing = Standing::of_answer(&orders);
        let places: Vec<(usize, Deletion)> = orders.delete.iter().map(|delete| (DISK, *delete)).collect();
        let is_of_before = self.ledger.borrow_mut().ordered(self.sim.now(), &orders) && self.world.plan.metad_count > 1;
        let order_count = |node: &datanode::Datanode| node.deletions.count() + node.copies.known_count();
        let (Rest { owners, scrub, disk_balance: _, keys_refused }, taken_count) = self.with(|node| {
            let before = order_count(node);
            node.servers.hear(number, &orders);
            let rest = node.obey(self.sim.now(), orders, places);
            if let Some(why) = self.ledger.borrow().waiting(|block| node.deletions.is_ordered(block, Generation(0))) {
                self.world.fail(|| format!("node {} {why}", self.number));
            }
            (rest, order_count(node).saturating_sub(before))
        });
        if is_of_before && (taken_count > 0 || !owners.is_empty() || scrub.is_some()) {
            self.world.fail(|| format!("node {} carries out orders of a former leader", self.number));
        }
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
            if let Err(why) = self.ledger.borrow_mut().deleting(&batch) {
                self.world.fail(|| format!("node {} {why}", self.number));
            }
            for (block, generation) in batch {
                if self.world.plan.removes_slowly {
                    self.world.node_disk(self.number).remove().await;
                }
                let deleted = self.volume.delete(block, generation).await;
                if deleted == Ok(false)
                    && let Some(held) = self.held(block)
                {
                    self.with(|node| node.was_put(&held));
                }
                if deleted == Ok(true) {
                    self.deleted_count.set(self.deleted_count.get() + 1);
                    self.sim.say(|| format!("node {} deleted {block:?} up to {generation}", self.number));
                    let ordered_at = self.ledger.borrow().ordered_at(block);
                    self.world.was_deleted(self.number, block, ordered_at);
                    self.ledger.borrow_mut().changed(self.sim.now(), block, Change::Deleted);
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
