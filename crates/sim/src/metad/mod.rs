//! A metadata server: what `metad`'s core, its handlers and its tasks do, around the same deciding code.

mod administration;
mod compare;
mod members;
mod names;
mod nodes;
mod putting;
mod recovery;
mod repair;
mod resize;
mod sealing;
mod surplus;
mod tasks;
mod writing;

use crate::executor::{Boxed, HostId, Lock, Notify, Sim};
use crate::group::{Group, NotLeader};
use crate::machine::{Command, Reply};
use crate::platter::Identity;
use crate::volume::Info;
use crate::world::World;
use administration::Administration;
use blocks::BlocksError;
use lead::{
    ChainSets, Cluster, Doomed, PlaceError, Plan, QUIET_MAX, Reception, Repair, Shortage, Surplus, Told, Undecided,
};
use lead::{Leased, Leases};
use namespace::{BlockView, Caller, Format, NsError, Op, Request, RetryKey};
use raft::Standing;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{BlockId, FileId, Generation, Millis, NodeId, ReplicaState};

pub(crate) use putting::{LeaseAsk, LeasedBlocks, Put};
pub(crate) use writing::Wish;

// As in `metad`, but for the hard limit: nobody needs to wait for twenty minutes here.
const PROPOSAL_COUNT_MAX: usize = 16;
const ARRIVAL_WAIT: Duration = Duration::from_secs(6);
const ARRIVAL_POLL: Duration = Duration::from_millis(50);
const LEASE_SOFT: Duration = Duration::from_secs(60);
const LEASE_HARD: Duration = Duration::from_secs(100);
pub(crate) const REPLICATION: u16 = 3;

#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// Ask another member.
    Standby,
    Namespace(NsError),
    NoNodes,
    RecoveryInProgress,
    /// Another process of this datanode is alive.
    InUse,
    /// Another process has taken this one's place.
    Superseded,
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
    pub(crate) group: Group,
    random: RefCell<Seeded>,
    pub(crate) leader_since: Cell<Duration>,
    reception: Cell<Reception>,
    leases: RefCell<Leases>,
    leased: RefCell<Leased>,
    doomed: RefCell<Doomed>,
    undecided: RefCell<Undecided>,
    /// Replicas to be deleted that safe mode keeps.
    kept_back: RefCell<Undecided>,
    recoveries: RefCell<BTreeMap<FileId, Generation>>,
    recovery_ended: Notify,
    planning: RefCell<Lock>,
    unfed: Cell<bool>,
    reap: Notify,
    prepare: Notify,
    repair: RefCell<Repair>,
    surplus: RefCell<Surplus>,
    /// Replicas that somebody called bad.
    reported: RefCell<BTreeSet<(BlockId, NodeId)>>,
    /// What writers' chains may still cost.
    chain_sets: RefCell<ChainSets>,
    repair_wake: Notify,
    /// Copies that no node had room for when that was looked at last.
    pub(crate) shortage: Cell<Shortage>,
    /// What an administrator asked for.
    asked: RefCell<Administration>,
    /// Files whose copies are under way, and when they are looked at again.
    resting: RefCell<BTreeMap<FileId, Duration>>,
}

impl Metad {
    pub(crate) fn new(world: Rc<World>, number: usize, group: Group) -> Rc<Self> {
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
            reception: Cell::new(Reception::new(Duration::ZERO, Duration::ZERO, QUIET_MAX)),
            leases: RefCell::default(),
            leased: RefCell::new(Leased::load(&MemoryRows::default(), Duration::ZERO, LEASE_SOFT).expect("empty")),
            doomed: RefCell::default(),
            undecided: RefCell::default(),
            kept_back: RefCell::default(),
            recoveries: RefCell::default(),
            recovery_ended: Notify::default(),
            planning: RefCell::default(),
            unfed: Cell::new(true),
            reap: Notify::default(),
            prepare: Notify::default(),
            repair: RefCell::default(),
            surplus: RefCell::default(),
            reported: RefCell::default(),
            chain_sets: RefCell::default(),
            repair_wake: Notify::default(),
            shortage: Cell::default(),
            asked: RefCell::default(),
            resting: RefCell::default(),
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
        let mut standing = self.group.standing();
        loop {
            let now = *standing.borrow_and_update();
            match now {
                Standing::Leading { term } if self.group.reign() != Some(term) => {
                    self.sim.say(|| format!("metad {} leads in term {term}", self.number));
                    self.begin_reign(term);
                }
                Standing::Leading { .. } => {}
                Standing::Standby { .. } => self.group.leave(),
            }
            if standing.changed().await.is_err() {
                return;
            }
        }
    }

    fn begin_reign(self: &Rc<Self>, reign: u64) {
        self.leader_since.set(self.now());
        self.reception.set(Reception::new(self.now(), self.now(), QUIET_MAX));
        self.world.reign_count.set(self.world.reign_count.get() + 1);
        let lessee = reign << 8 | self.number as u64;
        self.group.take(reign, lessee, self.world.plan.container_len);
        *self.leases.borrow_mut() = Leases::load(&*self.group.rows(), self.now()).expect("memory can be read");
        let leased = Leased::load(&*self.group.rows(), self.now(), LEASE_SOFT);
        *self.leased.borrow_mut() = leased.expect("memory can be read");
        *self.doomed.borrow_mut() = Doomed::default();
        *self.undecided.borrow_mut() = Undecided::default();
        *self.kept_back.borrow_mut() = Undecided::default();
        *self.repair.borrow_mut() = Repair::default();
        *self.surplus.borrow_mut() = Surplus::default();
        self.reported.borrow_mut().clear();
        *self.chain_sets.borrow_mut() = ChainSets::default();
        *self.asked.borrow_mut() = Administration::default();
        self.resting.borrow_mut().clear();
        self.recoveries.borrow_mut().clear();
        *self.planning.borrow_mut() = Lock::default();
        self.unfed.set(true);
        let rounds: [Round; 7] = [
            |metad, reign| Box::pin(async move { metad.follow_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.prepare_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.reap_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.look_after_leases_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.mend_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.heal_always(reign).await }),
            |metad, reign| Box::pin(async move { metad.seal_always(reign).await }),
        ];
        for round in rounds {
            self.sim.spawn(self.host, round(Rc::clone(self), reign));
        }
    }

    pub(crate) fn reigns(&self, reign: u64) -> bool {
        self.group.reign() == Some(reign)
    }

    pub(crate) async fn change(&self, retry: Option<RetryKey>, op: impl Into<Op>) -> Answer<namespace::Reply> {
        if self.group.reign().is_none() {
            return Err(Refused::Standby);
        }
        let request = Request { now: self.wall(), caller: Caller::system(), retry, op: op.into() };
        let reply = self.group.propose(Command::Namespace(request)).await?;
        // As in `metad`: before the caller goes on.
        let _fallen = self.follow();
        match reply {
            Reply::Namespace(answer) => answer.map_err(Refused::Namespace),
            _ => Err(Refused::Odd),
        }
    }

    pub(crate) async fn change_blocks(&self, command: blocks::Command) -> Answer<Result<blocks::Reply, BlocksError>> {
        match self.group.propose(Command::Blocks(command)).await? {
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

    async fn nodes_arrived(&self, replication: u16) -> Answer<()> {
        for _ in 0..ARRIVAL_WAIT.as_millis() / ARRIVAL_POLL.as_millis() {
            let now = self.now();
            let arrived = self.with_cluster(|cluster, _| {
                let wanted = cluster.nodes().count().clamp(1, usize::from(replication));
                cluster.live_count(now) >= wanted
            })?;
            if arrived || now.saturating_sub(self.leader_since.get()) >= ARRIVAL_WAIT {
                break;
            }
            self.sim.sleep(ARRIVAL_POLL).await;
        }
        Ok(())
    }
}

pub(crate) fn told(info: &Info) -> Told {
    let Identity { block, generation, file, home } = info.identity;
    let finalized = info.state == ReplicaState::Finalized;
    Told { block, generation, len: info.len as u64, file, home, finalized }
}
