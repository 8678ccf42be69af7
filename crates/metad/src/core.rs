//! Shared context of all calls and background tasks of one leader.

use crate::backup_session::BackupSession;
use crate::change_error::ChangeError;
use crate::command::{Command, Reply};
use crate::config::Config;
use crate::connections::Connections;
use crate::free_space::Room;
use crate::heartbeat_reception::HeartbeatReception;
use crate::host_lists::HostLists;
use crate::inside::Inside;
use crate::leader_lock::{LeaderLock, Leading};
use crate::live::Live;
use crate::machine::Machine;
use crate::node_calls::NodeCalls;
use crate::node_registry::NodeRegistry;
use crate::recoveries::Recoveries;
use crate::refusal::{self, Placed};
use crate::revocation::is_believed;
use crate::session::Session;
use crate::telemetry::{Queue, Telemetry};
use crate::topology_script::TopologyScript;
use crate::users::Users;
use blocks::BlocksError;
use hdfs::Exception;
use io::{CachedThreads, Clock, OsRandom};
use lead::{Allocation, Ask, Batch, Cluster, Complainant, Leader, PlaceError, Plan, Spender};
use namespace::{Caller, Op, Request, SafeMode};
use raft::{Raft, RaftError};
use security::joining::{self, JoinError};
use security::rings::{self, RingError};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use types::mutation::{self, Mutation};
use types::path::PathError;
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, FsPath, Millis, NodeId};

/// Proposals that one placement may need: a set of nodes, a container, ids; and the same again if another one took
/// them.
const PROPOSAL_COUNT_MAX: usize = 16;
/// After a start datanodes need a moment to register. A writer that comes meanwhile waits, instead of being refused or
/// of getting fewer replicas than a moment later.
const ARRIVAL_WAIT: Duration = Duration::from_secs(6);
const ARRIVAL_POLL: Duration = Duration::from_millis(50);
/// Calls that look at many rows at the same time. A guess: enough that some may wait for a disk while others compute.
const WALK_COUNT_MAX: usize = 4;
/// Calls that look at the rows of a path or a block at the same time: each has a thread that may wait for a disk. A
/// guess: a disk with a page in 10 ms brings 100 of them in a second, one with 64 at a time as many as it can.
const LOOK_COUNT_MAX: usize = 64;
/// Terms between two restored stores, for each millisecond between them: elections take longer.
const TERMS_OF_RESTORED: u64 = 1 << 10;
/// As much for what this server does by itself and for datanodes, of which there may be a thousand at a time after a
/// start.
const CHORE_COUNT_MAX: usize = 8;

pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) machine: Arc<Machine>,
    pub(crate) raft: Raft<Machine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) heard: Arc<NodeRegistry>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) room: Arc<Room>,
    /// `None`: files say nothing of datanodes.
    pub(crate) host_lists: Option<HostLists>,
    /// `None`: datanodes alone name their racks.
    pub(crate) racks: Option<TopologyScript>,
    pub(crate) inside: Inside,
    pub(crate) users: Arc<Users>,
    pub(crate) pool: String,
    /// Since when this server leads.
    pub(crate) started: Duration,
    reception: HeartbeatReception,
    /// Rises with each leader.
    pub(crate) term: u64,
    leader: LeaderLock,
    pub(crate) recoveries: Recoveries,
    /// There may be something to delete, or to forget.
    pub(crate) deletion_wake: Notify,
    /// Nodes came, or ids were used up.
    pub(crate) prepare: Notify,
    /// There may be something to repair, to compare or to move.
    pub(crate) repair_wake: Notify,
    /// One permit a call that looks at many rows.
    walks: Arc<Semaphore>,
    /// Where they look. The runtime's threads for what blocks are many, as looks at a few rows are, and each would keep
    /// what a long listing took: 200 clients that list took 77 to 114 MB more. Patient, as they take a core for
    /// milliseconds that a stat waits for: its p99 beside those clients was 5.1 to 8.1 ms, and is about 3.
    walkers: CachedThreads,
    /// One a call that looks at a few rows.
    looks: Arc<Semaphore>,
    /// One for each look at rows that no call waits for, or a datanode's.
    chores: Arc<Semaphore>,
    /// Held while a change of the block side is proposed, so that of many callers who lack the same thing one proposes
    /// it.
    planning: tokio::sync::Mutex<()>,
    pub(crate) calls: Arc<NodeCalls>,
    telemetry: Arc<Telemetry>,
    pub(crate) live: Arc<Live>,
    /// A backup that somebody takes.
    pub(crate) backup: BackupSession,
    /// Datanodes obey the highest term, and a restored store begins anew with its own.
    term_base: u64,
    /// A replica may have been reported as damaged.
    pub(crate) complaint_wake: Notify,
    /// Held while blocks with too few copies are counted: one counts at a time.
    pub(crate) counting: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// What [`Core::new`] needs beside what it makes itself.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) machine: Arc<Machine>,
    pub(crate) raft: Raft<Machine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) heard: Arc<NodeRegistry>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) room: Arc<Room>,
    pub(crate) calls: Arc<NodeCalls>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) live: Arc<Live>,
    pub(crate) users: Arc<Users>,
    pub(crate) pool: String,
    pub(crate) cluster: Cluster,
    pub(crate) term: u64,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Result<Self, RowsError> {
        let Parts { config, machine, raft, clock, heard, connections, room, calls, .. } = parts;
        let Parts { telemetry, live, users, pool, cluster, term, .. } = parts;
        let started = clock.monotonic();
        let leader = Leader::load(cluster, &machine.store().view(), clock.now(), started, config.lease_soft())?;
        let restored = blocks::tables::restored(&machine.store().view())?;
        let term_base = restored.map_or(0, |restored| restored.at.0.saturating_mul(TERMS_OF_RESTORED));
        let racks = config.topology_script.clone().map(TopologyScript::new);
        let host_lists = HostLists::of(&config);
        let inside = Inside::of(&config);
        let reception = HeartbeatReception::new(started, config.lost_after() / 2);
        Ok(Self {
            config,
            machine,
            raft,
            clock,
            heard,
            connections,
            room,
            host_lists,
            racks,
            inside,
            users,
            pool,
            started,
            reception,
            term,
            leader: LeaderLock::new(leader),
            recoveries: Recoveries::default(),
            deletion_wake: Notify::new(),
            prepare: Notify::new(),
            repair_wake: Notify::new(),
            walks: Arc::new(Semaphore::new(WALK_COUNT_MAX)),
            walkers: CachedThreads::patient("walk", WALK_COUNT_MAX),
            looks: Arc::new(Semaphore::new(LOOK_COUNT_MAX)),
            chores: Arc::new(Semaphore::new(CHORE_COUNT_MAX)),
            planning: tokio::sync::Mutex::new(()),
            calls,
            telemetry,
            live,
            backup: BackupSession::default(),
            term_base,
            complaint_wake: Notify::new(),
            counting: Arc::default(),
        })
    }

    /// Looks at many rows, which may lie on a cold disk, on a thread that may wait; a few such looks at a time.
    pub(crate) async fn walk<T: Send + 'static>(
        &self,
        session: &Session,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        io::task::blocking(within(self.turn_to_walk(session).await, look)).await
    }

    /// As [`Core::walk`], on threads that let others go first: for long answers, and what nobody is in a hurry for. It
    /// must not hold what others wait for. What a long listing is made of takes megabytes until it is encoded, and a
    /// crowd that lists would fill the memory.
    pub(crate) async fn walk_patiently<T: Send + 'static>(
        &self,
        session: &Session,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.walkers.blocking(within(self.turn_to_walk(session).await, look)).await
    }

    async fn turn_to_walk(&self, session: &Session) -> Turn {
        let turn = self.turn_of(&self.walks, &self.telemetry.queues.walks).await;
        session.untaken.wait_for_less().await;
        turn
    }

    /// Looks at a few rows, or uses what was found, on a thread that may wait for a disk. A page of the store that is
    /// not in memory holds up the thread that reads it: on the runtime's threads that would be the timers of Raft and
    /// all other calls.
    pub(crate) async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> T {
        io::task::blocking(within(self.turn_of(&self.looks, &self.telemetry.queues.looks).await, look)).await
    }

    /// As [`Core::look`], for what this server does by itself, and for datanodes.
    pub(crate) async fn chore<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> T {
        io::task::blocking(within(self.turn_of(&self.chores, &self.telemetry.queues.chores).await, look)).await
    }

    async fn turn_of(&self, turns: &Arc<Semaphore>, queue: &Queue) -> Turn {
        queue.turn(turns, &*self.clock).await
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// The term, as datanodes see it: above all that they ever heard of this store, also before it was restored.
    pub(crate) fn node_term(&self) -> u64 {
        self.term_base.saturating_add(self.term)
    }

    /// How long this server has been leading.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }

    /// This server is sure to lead at this moment, and so receives heartbeats.
    pub(crate) fn confirm_reception(&self) {
        self.reception.confirm(self.monotonic());
    }

    /// Since when a datanode's silence counts towards its loss.
    pub(crate) fn receiving_since(&self) -> Duration {
        self.reception.since(self.monotonic())
    }

    /// Since when a datanode's silence lets another process take its place.
    pub(crate) fn claims_since(&self) -> Duration {
        self.reception.claims_since(self.monotonic())
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// All that is known here and not replicated. Not to be held for long: every call that needs any of it waits.
    pub(crate) fn leader(&self) -> Leading<'_> {
        self.leader.lock()
    }

    /// As [`Core::leader`], with chance beside it.
    pub(crate) fn with_leader<T>(&self, run: impl FnOnce(&mut Leader, &mut OsRandom) -> T) -> T {
        let mut leading = self.leader.lock();
        let (leader, random) = leading.with_random();
        run(leader, random)
    }

    /// As [`Core::leader`], for what is dropped, and for what only notes something.
    pub(crate) fn leader_unless_broken(&self) -> Option<Leading<'_>> {
        self.leader.lock_unless_broken()
    }

    /// What is known here has missed something, or is not looked after: this server begins to lead anew.
    pub(crate) fn break_off(&self) {
        self.leader.break_off();
    }

    /// What is known here may be half changed: nothing is to be decided by it any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.leader.is_broken()
    }

    /// Returns when [`Core::is_broken`] is true.
    pub(crate) async fn broken(&self) {
        self.leader.broken().await;
    }

    /// The picture of the block side, with chance beside it.
    pub(crate) fn with_cluster<T>(&self, run: impl FnOnce(&mut Cluster, &mut OsRandom) -> T) -> T {
        self.with_leader(|leader, random| run(&mut leader.cluster, random))
    }

    /// Reads rows as they are now, for a call: here, or as [`Core::look`] does; see [`crate::residency`].
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        run: impl Fn(&dyn Rows) -> Result<T, RowsError> + Send + 'static,
    ) -> Result<T, Exception> {
        if let Some(found) = self.machine.residency.read_here(self.machine.store(), &run) {
            return found.map_err(refusal::rows);
        }
        let machine = Arc::clone(&self.machine);
        self.look(move || machine.residency.watch(|| run(&machine.store().view()))).await.map_err(refusal::rows)
    }

    /// As [`Core::rows`], for what may be refused.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        run: impl Fn(&dyn Rows) -> namespace::Answer<T> + Send + 'static,
    ) -> Result<T, Exception> {
        self.rows(run).await?.map_err(refusal::namespace)
    }

    /// Reads rows as they are now, as a chore; see [`Core::chore`].
    pub(crate) async fn chore_rows<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Rows) -> Result<T, RowsError> + Send + 'static,
    ) -> Result<T, RowsError> {
        let machine = Arc::clone(&self.machine);
        self.chore(move || run(&machine.store().view())).await
    }

    /// Reads rows on this thread, which may have to wait for a disk: only where that is well, or of a single row that
    /// all look at.
    pub(crate) fn rows_here<T>(&self, run: impl FnOnce(&dyn Rows) -> Result<T, RowsError>) -> Result<T, Exception> {
        run(&self.machine.store().view()).map_err(refusal::rows)
    }

    /// Whether a datanode is asked anything, and what it answers is taken: its certificates were never revoked, or it
    /// has registered by a later one over a connection that is open.
    pub(crate) fn is_believed(&self, node: NodeId) -> Result<bool, RowsError> {
        is_believed(&self.machine, &self.connections, node)
    }

    /// As [`Core::rows_here`], for what may be refused.
    pub(crate) fn read_here<T>(&self, run: impl FnOnce(&dyn Rows) -> namespace::Answer<T>) -> Result<T, Exception> {
        self.rows_here(run)?.map_err(refusal::namespace)
    }

    /// `None`: the namespace may change.
    pub(crate) fn safe_mode(&self) -> Result<Option<SafeMode>, RowsError> {
        if mutation::is(Mutation::DeleteInSafeMode) {
            return Ok(None);
        }
        namespace::read::safe_mode(&self.machine.store().view())
    }

    /// Refuses what would lead to a change, before anything is done for it, while safe mode is on. The change itself is
    /// refused when it is applied. `cannot` is the beginning of HDFS's message.
    pub(crate) fn must_be_changeable(&self, cannot: impl FnOnce() -> String) -> Result<(), Exception> {
        match self.rows_here(namespace::read::safe_mode)? {
            Some(_) => Err(refusal::safe_mode(&cannot())),
            None => Ok(()),
        }
    }

    /// Makes a change a client asked for. It is durable when this returns.
    pub(crate) async fn change(&self, session: &Session, op: impl Into<Op>) -> Result<namespace::Reply, Exception> {
        self.change_or_doubt(session, op).await.map_err(refusal::change)
    }

    /// As [`Core::change`], for callers that have to know whether the change may still be committed in spite of the
    /// error.
    pub(crate) async fn change_or_doubt(
        &self,
        session: &Session,
        op: impl Into<Op>,
    ) -> Result<namespace::Reply, ChangeError> {
        let op = op.into();
        self.admit(&op)?;
        self.change_admitted(session, op).await
    }

    /// Refuses what is not proposed at all.
    pub(crate) fn admit(&self, op: &Op) -> Result<(), ChangeError> {
        op.check_lens().map_err(ChangeError::Refused)?;
        Ok(self.room.admit(op)?)
    }

    /// As [`Core::change_or_doubt`], for callers that have asked [`Core::admit`]: a refusal comes from the log.
    pub(crate) async fn change_admitted(&self, session: &Session, op: Op) -> Result<namespace::Reply, ChangeError> {
        let caller = session.caller.clone();
        let request = Request { now: self.now(), caller, retry: session.retry, op };
        self.propose_namespace(request).await
    }

    /// Makes a change this server wants by itself.
    pub(crate) async fn change_unasked(&self, op: impl Into<Op>) -> Result<namespace::Reply, ChangeError> {
        let request = Request { now: self.now(), caller: Caller::system(), retry: None, op: op.into() };
        self.propose_namespace(request).await
    }

    async fn propose_namespace(&self, request: Request) -> Result<namespace::Reply, ChangeError> {
        match self.propose(Command::Namespace(request)).await? {
            Reply::Namespace(answer) => answer.map_err(ChangeError::Refused),
            reply => unreachable!("a request of the namespace was answered with {reply:?}"),
        }
    }

    async fn propose(&self, command: Command) -> Result<Reply, RaftError> {
        LeaderLock::must_be_free();
        if self.is_broken() {
            return Err(RaftError::NotLeader { leader: "again in a moment".to_owned() });
        }
        self.raft.propose(command).await
    }

    pub(crate) async fn change_blocks(
        &self,
        command: blocks::Command,
    ) -> Result<Result<blocks::Reply, BlocksError>, RaftError> {
        match self.propose(Command::Blocks(command)).await? {
            Reply::Blocks(answer) => Ok(answer),
            reply => unreachable!("a command of the block side was answered with {reply:?}"),
        }
    }

    pub(crate) async fn change_rings(&self, command: rings::Command) -> Result<Result<(), RingError>, RaftError> {
        match self.propose(Command::Rings(command)).await? {
            Reply::Rings(answer) => Ok(answer),
            reply => unreachable!("a command of the rings was answered with {reply:?}"),
        }
    }

    pub(crate) async fn change_joining(&self, command: joining::Command) -> Result<Result<(), JoinError>, RaftError> {
        match self.propose(Command::Joining(command)).await? {
            Reply::Joining(answer) => Ok(answer),
            reply => unreachable!("a command of invitations was answered with {reply:?}"),
        }
    }

    /// Lets newer forms be written, if every member knows them. False: they may not be yet.
    pub(crate) async fn raise_level(&self, needed: u8) -> Result<bool, RaftError> {
        if let Some(level) = self.raft.common_level().filter(|level| *level > self.raft.level()) {
            self.raft.propose(Command::Raise { level }).await?;
            tracing::info!(level, "format level raised");
        }
        Ok(self.raft.level() >= needed)
    }

    /// A block and its nodes for the file at `path`, which a client on `host` writes.
    pub(crate) async fn allocate(&self, path: &FsPath, ask: &Ask, host: IpAddr) -> Result<Allocation, Exception> {
        self.room.admit_growth().map_err(refusal::room)?;
        self.nodes_arrived(ask.replication).await;
        self.decide(Placed::File(path), self.payer(ask, host).as_slice(), || {
            let now = self.monotonic();
            self.with_cluster(|cluster, random| cluster.place(ask, now, random))
        })
        .await
    }

    /// As [`Core::allocate`], for up to `count` blocks of one container.
    pub(crate) async fn allocate_batch(
        &self,
        path: &FsPath,
        ask: &Ask,
        host: IpAddr,
        count: u32,
    ) -> Result<Batch, Exception> {
        self.room.admit_growth().map_err(refusal::room)?;
        self.nodes_arrived(ask.replication).await;
        self.decide(Placed::File(path), self.payer(ask, host).as_slice(), || {
            let now = self.monotonic();
            self.with_cluster(|cluster, random| cluster.place_batch(ask, count, now, random))
        })
        .await
    }

    /// Held by a caller that proposes what others may lack as well.
    pub(crate) async fn plan(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.planning.lock().await
    }

    /// The account charged for a pipeline that is made for `ask`: a client whose request differs from others', for
    /// which existing pipelines do not serve. `None`: the client did not choose what makes the pipeline necessary.
    fn payer(&self, ask: &Ask, host: IpAddr) -> Option<Spender> {
        let is_special = !ask.excluded.is_empty() || ask.replication != self.config.replication;
        is_special.then_some(Spender::Host(host))
    }

    /// The container whose members are `nodes`, for the chain of a block of `file`, which a client on `host` writes.
    pub(crate) async fn home_for(
        &self,
        block: BlockId,
        file: FileId,
        nodes: &[NodeId],
        current: ContainerId,
        host: IpAddr,
    ) -> Result<ContainerId, Exception> {
        let place = || self.with_cluster(|cluster, _| cluster.home_for(nodes, current));
        self.decide(Placed::Chain(block), &[Spender::File(file), Spender::HostChains(host)], place).await
    }

    /// Asks until there is a decision, and makes the changes it needs on the way. All of `payers` are charged for a
    /// pipeline that no plan asks for.
    async fn decide<T>(
        &self,
        what: Placed<'_>,
        payers: &[Spender],
        ask: impl Fn() -> Result<Plan<T>, PlaceError>,
    ) -> Result<T, Exception> {
        for _ in 0..PROPOSAL_COUNT_MAX {
            match ask().map_err(|error| refusal::place(what, error))? {
                Plan::Use(decision) => return Ok(decision),
                Plan::Propose(_) => {}
            }
            let _planning = self.planning.lock().await;
            // The previous holder of the lock may have made just this change.
            match ask().map_err(|error| refusal::place(what, error))? {
                Plan::Use(decision) => return Ok(decision),
                Plan::Propose(command) => {
                    let is_unplanned = matches!(command, blocks::Command::CreateSet { planned: false, .. });
                    let payers = if is_unplanned { payers } else { &[] };
                    for payer in payers {
                        let may = self.leader().chain_sets.may_spend(*payer, self.monotonic());
                        may.map_err(|refused| Exception::io(refused.to_string()))?;
                    }
                    match self.change_blocks(command).await.map_err(refusal::raft)? {
                        Ok(_) => payers.iter().for_each(|payer| {
                            self.leader().chain_sets.spend(*payer, self.monotonic());
                        }),
                        Err(refused) => tracing::debug!(%refused, "proposal superseded"),
                    }
                }
            }
        }
        tracing::error!(%what, proposals = PROPOSAL_COUNT_MAX, "no placement was decided");
        Err(Exception::io(format!("{what}: no place was found in time; try again")))
    }

    /// Returns when as many nodes are live as a block needs, or as there are; at the latest a few seconds after their
    /// first heartbeats could arrive. Where none can take a block, those that restart are waited for as well.
    pub(crate) async fn nodes_arrived(&self, replication: u16) {
        let polls = ARRIVAL_WAIT.as_millis() / ARRIVAL_POLL.as_millis();
        for _ in 0..polls {
            let now = self.monotonic();
            let arrived = self.with_cluster(|cluster, _| {
                let wanted = cluster.nodes().count().clamp(1, usize::from(replication.max(1)));
                // The only ones that could take a block have said that they are back soon.
                let is_back_soon = cluster.is_back_soon(now);
                let has_listened = now.saturating_sub(self.receiving_since()) >= ARRIVAL_WAIT;
                (cluster.live_count(now) >= wanted || has_listened) && !is_back_soon
            });
            if arrived {
                return;
            }
            io::time::sleep(ARRIVAL_POLL).await;
        }
    }

    /// Makes ready what new blocks will need, one change after the other.
    pub(crate) async fn prepare_blocks(&self) -> Result<(), RaftError> {
        loop {
            let _planning = self.planning.lock().await;
            let now = self.monotonic();
            let next = self.with_cluster(|cluster, random| cluster.ahead(self.config.replication, now, random));
            let Some(command) = next else { return Ok(()) };
            if let Err(refused) = self.change_blocks(command).await? {
                tracing::debug!(%refused, "proposal superseded");
                return Ok(());
            }
        }
    }

    /// Remembers that a replica was called bad. Belief waits until its node has read it.
    /// True: it is news, and will be looked into.
    pub(crate) fn note_bad(&self, block: BlockId, node: NodeId, by: Complainant) -> bool {
        let is_news = self.leader().complaints.note(block, node, by, self.monotonic());
        if is_news {
            self.complaint_wake.notify_one();
        }
        is_news
    }
}

/// Whose turn it is.
type Turn = Option<OwnedSemaphorePermit>;

/// The turn ends with the work, which continues when no caller waits for it any more.
fn within<T>(turn: Turn, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        let done = work();
        drop(turn);
        done
    }
}

/// A path in a call that looks something up: `None` if no name of the store can be like that.
pub(crate) fn find_path(call: &str, text: &str) -> Result<Option<FsPath>, Exception> {
    match FsPath::parse(text) {
        Ok(path) => Ok(Some(path)),
        Err(PathError::NameTooLong { .. } | PathError::Component { .. }) => Ok(None),
        Err(error) => Err(refusal::no_path(call, text, error)),
    }
}

/// A path in a call that makes a name.
pub(crate) fn make_path(call: &str, text: &str) -> Result<FsPath, Exception> {
    FsPath::parse(text).map_err(|error| refusal::no_new_path(call, text, error))
}

/// A path in a call that needs it to exist.
pub(crate) fn must_find(call: &str, text: &str) -> Result<FsPath, Exception> {
    find_path(call, text)?
        .ok_or_else(|| Exception::new(hdfs::exception::FILE_NOT_FOUND, format!("File does not exist: {text}")))
}
