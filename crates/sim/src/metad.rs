//! A metadata server: what `metad`'s core, its handlers and its tasks do, around the same deciding code.

use crate::datanode::{Heartbeat, Orders};
use crate::executor::{Boxed, HostId, Lock, Notify, Sim, all};
use crate::group::{Command, Group, NotLeader, Reply};
use crate::healing::CATALOGUE_WAIT;
use crate::net::CallError;
use crate::platter::Identity;
use crate::volume::{Info, ReplicaState};
use crate::world::{World, node_of};
use blocks::{Allocation, Ask, BlocksError, Cluster, Doomed, DoomedReplicas, Fate, PlaceError, Plan, Step, Survivor};
use blocks::{Repair, SILENCE_MAX, Surplus, Told, Undecided, Usage, Wanted};
use namespace::{
    AbandonBlock, AddBlock, Allocated, Append, BeginRecovery, BlockRef, BlockView, BumpGeneration, Caller, Complete,
    Create, Delete, DoomedBlock, FileBlocks, FinishRecovery, ForgetDoomed, Format, Fsync, Leased, Leases, Mkdirs,
    NsError, Op, RECOVERY_HOLDER, Reap, Recovery, RecoveryTarget, Rename2, Request, RetryKey, Status, UpdatePipeline,
    read,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{BlockId, FileId, FsPath, Generation, Millis, NodeId};

// As in `metad`, but for the hard limit: nobody needs to wait for twenty minutes here.
const PROPOSAL_COUNT_MAX: usize = 16;
const ARRIVAL_WAIT: Duration = Duration::from_secs(6);
const ARRIVAL_POLL: Duration = Duration::from_millis(50);
pub(crate) const LEASE_SOFT: Duration = Duration::from_secs(60);
pub(crate) const LEASE_HARD: Duration = Duration::from_secs(100);
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(15);
const ANSWER_MAX: Duration = Duration::from_secs(10);
const ENDED_WAIT: Duration = Duration::from_millis(800);
const PAGE_COUNT: usize = 1000;
pub(crate) const REPLICATION: u16 = 3;

#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// Ask another member.
    Standby,
    Namespace(NsError),
    NoNodes,
    RecoveryInProgress,
    Odd,
}

impl From<NotLeader> for Refused {
    fn from(_: NotLeader) -> Self {
        Self::Standby
    }
}

pub(crate) type Answer<T> = Result<T, Refused>;

/// A task of a leader.
type Round = fn(Rc<Metad>, u64) -> Boxed<()>;

/// A block with the nodes to write it to, or to read it from.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) view: BlockView,
    pub(crate) nodes: Vec<NodeId>,
}

pub(crate) struct Metad {
    pub(crate) world: Rc<World>,
    pub(crate) sim: Sim,
    pub(crate) host: HostId,
    pub(crate) number: usize,
    pub(crate) group: Rc<Group>,
    random: RefCell<Seeded>,
    pub(crate) leader_since: Cell<Duration>,
    leases: RefCell<Leases>,
    leased: RefCell<Leased>,
    doomed: RefCell<Doomed>,
    undecided: RefCell<Undecided>,
    recoveries: RefCell<BTreeMap<FileId, Generation>>,
    recovery_ended: Notify,
    planning: RefCell<Lock>,
    unfed: Cell<bool>,
    reap: Notify,
    prepare: Notify,
    pub(crate) repair: RefCell<Repair>,
    pub(crate) surplus: RefCell<Surplus>,
    /// Replicas that somebody called bad.
    pub(crate) reported: RefCell<BTreeSet<(BlockId, NodeId)>>,
    pub(crate) repair_wake: Notify,
}

impl Metad {
    pub(crate) fn new(world: Rc<World>, number: usize, group: Rc<Group>) -> Rc<Self> {
        let (sim, host) = (world.sim.clone(), World::metad_host(number));
        let random = RefCell::new(sim.split());
        Rc::new(Self {
            world,
            sim,
            host,
            number,
            group,
            random,
            leader_since: Cell::default(),
            leases: RefCell::default(),
            leased: RefCell::new(Leased::load(&MemoryRows::default(), Duration::ZERO, LEASE_SOFT).expect("empty")),
            doomed: RefCell::default(),
            undecided: RefCell::default(),
            recoveries: RefCell::default(),
            recovery_ended: Notify::default(),
            planning: RefCell::default(),
            unfed: Cell::new(true),
            reap: Notify::default(),
            prepare: Notify::default(),
            repair: RefCell::default(),
            surplus: RefCell::default(),
            reported: RefCell::default(),
            repair_wake: Notify::default(),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.sim.now()
    }

    fn wall(&self) -> Millis {
        // The members' clocks differ by a few seconds.
        Millis(1_800_000_000_000 + self.now().as_millis() as u64 + 1700 * self.number as u64)
    }

    /// Takes up the work of a leader whenever this member becomes one.
    pub(crate) async fn watch(self: Rc<Self>) {
        let mut known = 0;
        loop {
            if let Some(reign) = self.group.reign().filter(|reign| *reign != known) {
                known = reign;
                self.sim.say(|| format!("metad {} leads in term {reign}", self.number));
                self.begin_reign(reign);
            }
            self.group.reign_changed.notified().await;
        }
    }

    fn begin_reign(self: &Rc<Self>, reign: u64) {
        self.leader_since.set(self.now());
        let lessee = reign << 8 | self.number as u64;
        self.group.watch_blocks(lessee);
        *self.leases.borrow_mut() = Leases::load(&*self.group.rows(), self.now()).expect("memory can be read");
        let leased = Leased::load(&*self.group.rows(), self.now(), LEASE_SOFT);
        *self.leased.borrow_mut() = leased.expect("memory can be read");
        *self.doomed.borrow_mut() = Doomed::default();
        *self.undecided.borrow_mut() = Undecided::default();
        *self.repair.borrow_mut() = Repair::default();
        *self.surplus.borrow_mut() = Surplus::default();
        self.reported.borrow_mut().clear();
        self.recoveries.borrow_mut().clear();
        *self.planning.borrow_mut() = Lock::default();
        self.unfed.set(true);
        let rounds: [Round; 4] = [
            |metad, reign| Box::pin(async move { metad.prepare_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.reap_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.look_after_leases_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.heal_always(reign).await }),
        ];
        for round in rounds {
            self.sim.spawn(self.host, round(Rc::clone(self), reign));
        }
    }

    pub(crate) fn reigns(&self, reign: u64) -> bool {
        self.group.reign() == Some(reign)
    }

    // ── changes ──

    pub(crate) async fn change(&self, retry: Option<RetryKey>, op: impl Into<Op>) -> Answer<namespace::Reply> {
        if self.group.reign().is_none() {
            return Err(Refused::Standby);
        }
        let request = Request { now: self.wall(), caller: Caller::system(), retry, op: op.into() };
        match self.group.propose(&Command::Namespace(request)).await? {
            Reply::Namespace(answer) => answer.map_err(Refused::Namespace),
            _ => Err(Refused::Odd),
        }
    }

    pub(crate) async fn change_blocks(&self, command: blocks::Command) -> Answer<Result<blocks::Reply, BlocksError>> {
        match self.group.propose(&Command::Blocks(command)).await? {
            Reply::Blocks(answer) => Ok(answer),
            _ => Err(Refused::Odd),
        }
    }

    pub(crate) fn with_cluster<T>(&self, run: impl FnOnce(&mut Cluster, &mut Seeded) -> T) -> Answer<T> {
        let mut random = self.random.borrow_mut();
        self.group.with_cluster(|cluster| run(cluster, &mut random)).ok_or(Refused::Standby)
    }

    pub(crate) async fn format(&self) -> Answer<()> {
        let format = Format { owner: "root".into(), group: "root".into() };
        self.change(None, format).await.map(|_| ())
    }

    async fn decide<T>(&self, ask: impl Fn(&mut Cluster, &mut Seeded) -> Result<Plan<T>, PlaceError>) -> Answer<T> {
        let place = |error: PlaceError| match error {
            PlaceError::NoNodes { .. } => Refused::NoNodes,
            PlaceError::UnknownNode(_) => Refused::Odd,
        };
        let lock = self.planning.borrow().clone();
        for _ in 0..PROPOSAL_COUNT_MAX {
            if let Plan::Use(decision) = self.with_cluster(&ask)?.map_err(place)? {
                return Ok(decision);
            }
            let _planning = lock.lock().await;
            match self.with_cluster(&ask)?.map_err(place)? {
                Plan::Use(decision) => return Ok(decision),
                Plan::Propose(command) => _ = self.change_blocks(command).await?,
            }
        }
        Err(Refused::Odd)
    }

    async fn nodes_arrived(&self) -> Answer<()> {
        for _ in 0..ARRIVAL_WAIT.as_millis() / ARRIVAL_POLL.as_millis() {
            let now = self.now();
            let arrived = self.with_cluster(|cluster, _| {
                let wanted = cluster.nodes().count().clamp(1, usize::from(REPLICATION));
                cluster.live_count(now) >= wanted
            })?;
            if arrived || now.saturating_sub(self.leader_since.get()) >= ARRIVAL_WAIT {
                break;
            }
            self.sim.sleep(ARRIVAL_POLL).await;
        }
        Ok(())
    }

    // ── calls of clients ──

    fn silent_holder(&self, path: &FsPath) -> Option<String> {
        let holder = read::holder_of(&*self.group.rows(), path).expect("memory can be read");
        let holder = holder.filter(|holder| !holder.recovering).map(|holder| holder.holder);
        holder.filter(|holder| self.leases.borrow().is_silent(holder, self.now(), LEASE_SOFT))
    }

    pub(crate) async fn create(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
        overwrite: bool,
        mode: u16,
        block_len: u64,
    ) -> Answer<Status> {
        self.group.read_barrier().await?;
        let create = Create {
            takeover: self.silent_holder(&path),
            path,
            client: client.clone(),
            client_host: client.clone(),
            mode,
            create: true,
            overwrite,
            create_parent: true,
            replication: REPLICATION,
            block_len,
            block_len_min: 1,
        };
        self.leases.borrow_mut().granted(&client, self.now());
        match self.change(Some(retry), create).await? {
            namespace::Reply::Status(status) => {
                if overwrite {
                    self.was_doomed();
                }
                Ok(status)
            }
            namespace::Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }

    /// The last block, which is whole, and the length.
    pub(crate) async fn append(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
    ) -> Answer<(Option<BlockView>, Status)> {
        self.group.read_barrier().await?;
        let append = Append {
            takeover: self.silent_holder(&path),
            path: path.clone(),
            client: client.clone(),
            client_host: client.clone(),
            new_block: true,
        };
        self.leases.borrow_mut().granted(&client, self.now());
        match self.change(Some(retry), append).await? {
            namespace::Reply::Append { last, status } => {
                let located = read::located(&*self.group.rows(), &Caller::system(), &path, 0, 0);
                let last = last.or(located.expect("memory can be read").ok().and_then(|file| file.last));
                Ok((last, status))
            }
            namespace::Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }

    fn wait_for(self: &Rc<Self>, recovery: Recovery) -> Refused {
        if let Recovery::Started { file, last, generation, .. } = recovery {
            self.start_recovery(file, last, generation);
        }
        Refused::RecoveryInProgress
    }

    pub(crate) async fn add_block(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        previous: Option<BlockRef>,
        excluded: Vec<NodeId>,
    ) -> Answer<Located> {
        self.group.read_barrier().await?;
        let plan =
            read::plan_block(&*self.group.rows(), &Caller::system(), &path, Some(file), &client, previous.as_ref());
        let plan = plan.expect("memory can be read").map_err(Refused::Namespace)?;
        if let Some(view) = plan.existing {
            return self.locate(view, true);
        }
        let ask = Ask { replication: plan.replication, block_len: plan.block_len, excluded, ..Ask::default() };
        self.nodes_arrived().await?;
        let allocation: Allocation = self.decide(|cluster, random| cluster.place(&ask, self.sim.now(), random)).await?;
        let allocated = Allocated { block: allocation.block, home: allocation.home };
        let reply = self.change(None, AddBlock { path, client, file: Some(file), previous, allocated }).await?;
        let namespace::Reply::Block(view) = reply else { return Err(Refused::Odd) };
        if let (Some(written), Some(before)) = (previous, plan.previous) {
            self.with_cluster(|cluster, _| cluster.on_written(before.home, written.len))?;
            self.doubt_if_short(written.block, before.home)?;
        }
        if view.block == allocation.block {
            Ok(Located { view, nodes: allocation.nodes })
        } else {
            self.locate(view, true)
        }
    }

    fn locate(&self, view: BlockView, live_only: bool) -> Answer<Located> {
        let now = self.now();
        let nodes = self.with_cluster(|cluster, random| {
            let mut members = cluster.readers_order(view.home, None, now, random);
            if live_only && members.iter().any(|member| member.is_live(now)) {
                members.retain(|member| member.is_live(now));
            }
            members.into_iter().map(|member| member.node.id).collect()
        })?;
        Ok(Located { view, nodes })
    }

    pub(crate) async fn abandon(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        block: BlockId,
    ) -> Answer<()> {
        self.change(None, AbandonBlock { path, client, file: Some(file), block }).await?;
        self.was_doomed();
        Ok(())
    }

    pub(crate) async fn bump(self: Rc<Self>, client: String, block: BlockId) -> Answer<(Generation, BlockView)> {
        let reply = self.change(None, BumpGeneration { block, client }).await?;
        let namespace::Reply::Generation(generation) = reply else { return Err(Refused::Odd) };
        let found = read::file_of_block(&*self.group.rows(), block).expect("memory can be read");
        found.map(|(_, view)| (generation, view)).ok_or(Refused::Odd)
    }

    pub(crate) async fn update_pipeline(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        old: BlockRef,
        new: BlockRef,
        nodes: Vec<NodeId>,
    ) -> Answer<()> {
        self.group.read_barrier().await?;
        let current = read::written_block(&*self.group.rows(), old.block, &client);
        let current = current.expect("memory can be read").map_err(Refused::Namespace)?.home;
        let found = self.decide(|cluster, _| cluster.home_for(&nodes, current)).await?;
        let home = (found != current).then_some(found);
        let (block, len) = (new.block, new.len);
        let update = UpdatePipeline { client, block, old: old.generation, new: new.generation, len, home };
        self.change(Some(retry), update).await?;
        if home.is_some() {
            self.was_doomed();
        }
        Ok(())
    }

    pub(crate) async fn complete(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        last: Option<BlockRef>,
    ) -> Answer<bool> {
        match self.change(None, Complete { path, client, file: Some(file), last }).await? {
            namespace::Reply::Bool(done) => {
                if let Some(view) = last.filter(|_| done).and_then(|last| self.view_of(last.block)) {
                    self.doubt_if_short(view.block, view.home)?;
                }
                Ok(done)
            }
            _ => Err(Refused::Odd),
        }
    }

    pub(crate) async fn fsync(self: Rc<Self>, client: String, path: FsPath, file: FileId) -> Answer<()> {
        self.group.read_barrier().await?;
        let writing = read::writing(&*self.group.rows(), &Caller::system(), &path, Some(file), &client);
        writing.expect("memory can be read").map_err(Refused::Namespace).map(|_| ())
    }

    /// Not called by clients of ours, but by others: records how much was written.
    #[allow(dead_code, reason = "for writers that record lengths, as HBase does")]
    pub(crate) async fn fsync_len(self: Rc<Self>, client: String, path: FsPath, file: FileId, len: u64) -> Answer<()> {
        self.change(None, Fsync { path, client, file: Some(file), last_len: Some(len) }).await.map(|_| ())
    }

    pub(crate) async fn renew(self: Rc<Self>, client: String) -> Answer<()> {
        if self.group.reign().is_none() {
            return Err(Refused::Standby);
        }
        self.leases.borrow_mut().renew(&client, self.now());
        self.leased.borrow_mut().renew(&client, self.now());
        Ok(())
    }

    pub(crate) async fn recover_lease(self: Rc<Self>, path: FsPath) -> Answer<bool> {
        self.group.read_barrier().await?;
        let holder = read::holder_of(&*self.group.rows(), &path).expect("memory can be read");
        if holder.is_some_and(|holder| holder.recovering && self.recoveries.borrow().contains_key(&holder.file)) {
            return Ok(false);
        }
        let begin = BeginRecovery { target: RecoveryTarget::Path(path), holder: None };
        match self.change(None, begin).await? {
            namespace::Reply::Recovery(Recovery::Started { file, last, generation, .. }) => {
                self.start_recovery(file, last, generation);
                let ended = async {
                    while self.recoveries.borrow().contains_key(&file) {
                        self.recovery_ended.notified().await;
                    }
                };
                let ended = self.sim.timeout(ENDED_WAIT, ended).await.is_some();
                let open = read::lease_files(&*self.group.rows(), RECOVERY_HOLDER, None, PAGE_COUNT);
                Ok(ended && !open.expect("memory can be read").contains(&file))
            }
            namespace::Reply::Recovery(Recovery::Closed { .. }) => Ok(true),
            _ => Ok(false),
        }
    }

    pub(crate) async fn delete(self: Rc<Self>, retry: RetryKey, path: FsPath) -> Answer<bool> {
        let reply = self.change(Some(retry), Delete { path, recursive: true }).await?;
        self.was_doomed();
        Ok(reply == namespace::Reply::Bool(true))
    }

    pub(crate) async fn rename(
        self: Rc<Self>,
        retry: RetryKey,
        from: FsPath,
        to: FsPath,
        overwrite: bool,
    ) -> Answer<()> {
        self.change(Some(retry), Rename2 { from, to, overwrite, to_trash: false }).await?;
        if overwrite {
            self.was_doomed();
        }
        Ok(())
    }

    pub(crate) async fn mkdirs(self: Rc<Self>, path: FsPath) -> Answer<()> {
        self.change(None, Mkdirs { path, mode: 0o755, create_parent: true }).await.map(|_| ())
    }

    pub(crate) async fn status(self: Rc<Self>, path: FsPath) -> Answer<Option<Status>> {
        self.group.read_barrier().await?;
        let status = read::status(&*self.group.rows(), &Caller::system(), &path);
        status.expect("memory can be read").map_err(Refused::Namespace)
    }

    /// All blocks of a file with their nodes; the last one may be under construction.
    pub(crate) async fn located(self: Rc<Self>, path: FsPath) -> Answer<(FileBlocks, Vec<Located>)> {
        self.group.read_barrier().await?;
        let file = read::located(&*self.group.rows(), &Caller::system(), &path, 0, u64::MAX);
        let file = file.expect("memory can be read").map_err(Refused::Namespace)?;
        let mut views: Vec<BlockView> = file.blocks.iter().filter(|view| view.complete).copied().collect();
        views.extend(file.last.filter(|last| !last.complete));
        let located = views.into_iter().map(|view| self.locate(view, false)).collect::<Answer<Vec<_>>>()?;
        Ok((file, located))
    }

    // ── datanodes ──

    pub(crate) async fn register(self: Rc<Self>, number: usize, usage: Usage) -> Answer<()> {
        self.group.confirm().await?;
        let node = node_of(number);
        let id = node.id;
        let known = self.with_cluster(|cluster, _| cluster.node(id).is_some_and(|member| member.node == node))?;
        if !known {
            self.change_blocks(blocks::Command::Register(node)).await?.map_err(|_| Refused::Odd)?;
        }
        let now = self.now();
        self.with_cluster(|cluster, _| {
            cluster.on_registered(now, id, usage);
            let mut repair = self.repair.borrow_mut();
            repair.on_registered(id);
            for pipeline in cluster.pipelines_of(id) {
                cluster.containers_of(*pipeline).for_each(|home| repair.suspect(home, now + CATALOGUE_WAIT));
            }
        })?;
        self.repair_wake.notify();
        self.prepare.notify();
        Ok(())
    }

    pub(crate) async fn heartbeat(self: Rc<Self>, told: Heartbeat) -> Answer<Option<Orders>> {
        // A leader that fell would judge by what it does not know.
        self.group.confirm().await?;
        let now = self.now();
        if !self.with_cluster(|cluster, _| cluster.on_heartbeat(now, told.node, told.usage))? {
            return Ok(None);
        }
        self.tell_repair(&told);
        let mut orders = Orders::default();
        self.reconcile(told.node, told.put.into_iter().chain(told.stale).collect(), &mut orders)?;
        let undecided = self.undecided.borrow_mut().take(told.node);
        self.reconcile(told.node, undecided, &mut orders)?;
        let mut doomed = self.doomed.borrow_mut();
        for block in &told.deleted {
            doomed.on_deleted(told.node, *block);
            self.surplus.borrow_mut().stays(told.node, *block);
        }
        orders.delete.extend(doomed.orders(told.node, now));
        if !told.deleted.is_empty() {
            self.reap.notify();
        }
        let surplus = self.surplus_orders(told.node)?;
        orders.delete.extend(surplus.iter().map(|told| (told.block, told.generation)));
        orders.copy = self.repair.borrow_mut().orders(told.node, now);
        Ok(Some(orders))
    }

    /// What a node copied, could not copy, and found damaged.
    fn tell_repair(&self, told: &Heartbeat) {
        let (node, now) = (told.node, self.now());
        let mut repair = self.repair.borrow_mut();
        for replica in &told.put {
            self.surplus.borrow_mut().stays(node, replica.block);
            repair.on_put(node, replica.block, replica.generation, now);
        }
        for failure in &told.copy_failures {
            if !repair.is_news(node, failure.number) {
                continue;
            }
            repair.on_failed(node, failure.block, failure.source, now);
            if let Some(source) = failure.source.filter(|_| failure.corrupt) {
                self.reported.borrow_mut().insert((failure.block, source));
            }
        }
        for block in &told.bad {
            repair.on_bad(*block, node);
        }
        repair.on_working(node, &told.copying, now);
        if !(told.put.is_empty() && told.copy_failures.is_empty() && told.bad.is_empty()) {
            self.repair_wake.notify();
        }
    }

    pub(crate) fn wanted(&self, block: BlockId) -> Option<Wanted> {
        let BlockView { file, generation, home, complete, .. } = self.view_of(block)?;
        Some(Wanted { file, generation, home, complete })
    }

    pub(crate) async fn catalogue(self: Rc<Self>, node: NodeId, replicas: Vec<Told>) -> Answer<Option<Orders>> {
        self.group.confirm().await?;
        if !self.with_cluster(|cluster, _| cluster.node(node).is_some_and(|member| member.seen().is_some()))? {
            return Ok(None);
        }
        let mut orders = Orders::default();
        self.reconcile(node, replicas, &mut orders)?;
        Ok(Some(orders))
    }

    fn reconcile(&self, node: NodeId, replicas: Vec<Told>, orders: &mut Orders) -> Answer<()> {
        let now = self.now();
        for told in replicas {
            // Before the rows: what is nobody's at this moment can only have an owner already.
            let may_be_put = self.leased.borrow().may_be_put(told.block, now);
            let wanted = self.wanted(told.block);
            let judgement = self.with_cluster(|cluster, _| cluster.judge(node, &told, wanted.as_ref(), may_be_put))?;
            let mut again = judgement.again;
            match (judgement.fate, wanted) {
                (Fate::Surplus, Some(_)) if self.comes_here(node, told.block)? => again = true,
                (Fate::Surplus, Some(wanted)) => {
                    self.surplus.borrow_mut().keep(node, told, wanted.home, now);
                    self.repair_wake.notify();
                }
                (Fate::Goes, _) => orders.delete.push((told.block, told.generation)),
                (Fate::Owned, Some(wanted)) => orders.owners.push((told.block, wanted.file, wanted.home)),
                (Fate::Strange, _) => self.world.fail(|| format!("{:?} is strange to metad {}", told, self.number)),
                (Fate::Stays | Fate::Owned | Fate::Surplus, _) => {}
            }
            if again {
                self.undecided.borrow_mut().keep(node, told);
            }
        }
        Ok(())
    }

    // ── tasks ──

    fn was_doomed(&self) {
        self.unfed.set(true);
        self.reap.notify();
    }

    async fn prepare_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            loop {
                let lock = self.planning.borrow().clone();
                let _planning = lock.lock().await;
                let now = self.now();
                let next = self.with_cluster(|cluster, random| cluster.ahead(REPLICATION, now, random));
                let Ok(Some(command)) = next else { break };
                if !matches!(self.change_blocks(command).await, Ok(Ok(_))) {
                    break;
                }
            }
            let _told = self.sim.timeout(Duration::from_secs(1), self.prepare.notified()).await;
        }
    }

    async fn reap_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            let _again = self.reap_round().await;
            self.sim.sleep(Duration::from_millis(200)).await;
            let _told = self.sim.timeout(Duration::from_secs(5), self.reap.notified()).await;
        }
    }

    async fn reap_round(&self) -> Answer<()> {
        let now = self.now();
        if now.saturating_sub(self.leader_since.get()) > SILENCE_MAX {
            let debtors: Vec<NodeId> = self.doomed.borrow().debtors().collect();
            let lost = self.with_cluster(|cluster, _| {
                let live = |id| cluster.node(id).is_some_and(|member| member.is_live(now));
                debtors.into_iter().filter(|id| !live(*id)).collect::<Vec<_>>()
            })?;
            for node in lost {
                self.doomed.borrow_mut().on_lost(node);
            }
        }
        loop {
            let rows = self.doomed.borrow_mut().take_forgettable(PAGE_COUNT);
            if rows.is_empty() {
                break;
            }
            let blocks = rows.into_iter().map(|DoomedReplicas { block, home, generation }| DoomedBlock {
                block,
                home,
                generation,
            });
            self.change(None, ForgetDoomed { blocks: blocks.collect() }).await?;
        }
        if self.unfed.replace(false) {
            let page = read::doomed_blocks(&*self.group.rows(), None, 100_000).expect("memory can be read");
            self.owe(page)?;
        }
        while read::has_deleted_trees(&*self.group.rows()).expect("memory can be read") {
            if let namespace::Reply::Reaped { doomed, .. } = self.change(None, Reap { inodes_max: 1000 }).await? {
                self.owe(doomed)?;
            }
        }
        Ok(())
    }

    fn owe(&self, blocks: Vec<DoomedBlock>) -> Answer<()> {
        self.with_cluster(|cluster, _| {
            for DoomedBlock { block, home, generation } in blocks {
                let doomed = DoomedReplicas { block, home, generation };
                self.doomed.borrow_mut().feed(doomed, cluster.member_ids(home));
            }
        })
    }

    async fn look_after_leases_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            let _again = self.look_after_leases().await;
            self.sim.sleep(Duration::from_secs(1)).await;
        }
    }

    async fn look_after_leases(self: &Rc<Self>) -> Answer<()> {
        let now = self.now();
        self.leased.borrow_mut().sweep(now);
        let mut holders = self.leases.borrow().silent(now, LEASE_HARD);
        holders.retain(|holder| holder != RECOVERY_HOLDER);
        holders.push(RECOVERY_HOLDER.to_owned());
        for holder in holders {
            let files = read::lease_files(&*self.group.rows(), &holder, None, PAGE_COUNT).expect("memory can be read");
            if files.is_empty() {
                self.leases.borrow_mut().forget(&holder, now.saturating_sub(LEASE_HARD));
            }
            for file in files {
                if self.recoveries.borrow().contains_key(&file) {
                    continue;
                }
                let begin = BeginRecovery { target: RecoveryTarget::File(file), holder: Some(holder.clone()) };
                if let Ok(namespace::Reply::Recovery(Recovery::Started { file, last, generation, .. })) =
                    self.change(None, begin).await
                {
                    self.start_recovery(file, last, generation);
                }
            }
        }
        let silent = self.leases.borrow().silent(now, LEASE_SOFT);
        for holder in silent {
            let idle = read::lease_files(&*self.group.rows(), &holder, None, 1).expect("memory can be read").is_empty();
            if idle {
                self.leases.borrow_mut().forget(&holder, now.saturating_sub(LEASE_SOFT));
            }
        }
        Ok(())
    }

    // ── recovery ──

    fn start_recovery(self: &Rc<Self>, file: FileId, last: BlockView, generation: Generation) {
        let running = self.recoveries.borrow().get(&file).copied();
        if running.is_some_and(|running| running >= generation) {
            return;
        }
        self.recoveries.borrow_mut().insert(file, generation);
        let metad = Rc::clone(self);
        self.sim.spawn(self.host, async move {
            metad.recover(file, last, generation).await;
            let mut running = metad.recoveries.borrow_mut();
            if running.get(&file) == Some(&generation) {
                running.remove(&file);
            }
            drop(running);
            metad.recovery_ended.notify();
        });
    }

    async fn recover(self: &Rc<Self>, file: FileId, last: BlockView, generation: Generation) {
        let begun = self.now();
        let reign = self.group.reign();
        let mut retry = RETRY_FIRST;
        let overtaken = || {
            self.recoveries.borrow().get(&file) != Some(&generation) || self.group.reign() != reign || reign.is_none()
        };
        while !overtaken() {
            let Ok(members) = self.with_cluster(|cluster, _| cluster.member_ids(last.home).to_vec()) else { return };
            let begin = self.ask_all(&members, move |node, block| {
                Box::pin(async move { node.begin_recovery(block, generation).await })
            });
            let answers: Vec<(NodeId, Option<Option<Info>>)> = begin(last.block).await;
            let silent = answers.iter().filter(|(_, answer)| answer.is_none()).count();
            let survivors: Vec<Survivor> =
                answers.iter().filter_map(|(node, answer)| Some(survivor(*node, &(*answer)??))).collect();
            let waited = self.now().saturating_sub(begun);
            let step = blocks::next_step(&survivors, silent, waited, last.generation, last.len);
            self.sim.say(|| {
                format!("recovery of {:?} under {generation}: {survivors:?}, {silent} silent: {step:?}", last.block)
            });
            let len = match step {
                Step::Wait(_) => {
                    self.sim.sleep(retry).await;
                    retry = (retry * 2).min(RETRY_LAST);
                    continue;
                }
                Step::Nothing => None,
                Step::Finish(agreed) => {
                    let len = agreed.len as usize;
                    let finish = self.ask_all(&agreed.nodes, move |node, block| {
                        Box::pin(async move { node.finish_recovery(block, generation, len).await })
                    });
                    if finish(last.block).await.iter().all(|(_, answer)| answer.is_none()) {
                        self.sim.sleep(retry).await;
                        return;
                    }
                    Some(agreed.len)
                }
            };
            let finish = FinishRecovery { file, block: last.block, generation, len };
            if self.change(None, finish).await.is_ok() {
                self.was_doomed();
                self.doubt(last.block);
            }
            return;
        }
    }

    /// `None` where no answer came, or a refusal.
    fn ask_all<A: 'static>(
        &self,
        nodes: &[NodeId],
        ask: impl Fn(Rc<crate::datanode::Datanode>, BlockId) -> Boxed<Result<A, ()>> + Clone + 'static,
    ) -> impl Fn(BlockId) -> Boxed<Vec<(NodeId, Option<A>)>> {
        let (world, from, nodes) = (Rc::clone(&self.world), self.host, nodes.to_vec());
        move |block| {
            let calls = nodes.iter().map(|id| {
                let (world, id, ask) = (Rc::clone(&world), *id, ask.clone());
                let call: Boxed<(NodeId, Option<A>)> = Box::pin(async move {
                    let number = World::node_number(id);
                    let answer: Result<Result<A, ()>, CallError> =
                        world.call_node(from, number, ANSWER_MAX, move |node| ask(node, block)).await;
                    (id, answer.ok().and_then(Result::ok))
                });
                call
            });
            Box::pin(all(calls.collect()))
        }
    }
}

fn survivor(node: NodeId, info: &Info) -> Survivor {
    let state = match info.state {
        ReplicaState::Finalized => blocks::ReplicaState::Finalized,
        ReplicaState::Open => blocks::ReplicaState::Open,
        ReplicaState::WaitingForRecovery => blocks::ReplicaState::WaitingForRecovery,
    };
    Survivor { node, state, generation: info.identity.generation, len: info.len as u64 }
}

pub(crate) fn told(info: &Info) -> Told {
    let Identity { block, generation, file, home } = info.identity;
    Told { block, generation, len: info.len as u64, file, home }
}
