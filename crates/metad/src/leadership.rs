//! Leadership of this member of the group: it leads, or is a standby.
//!
//! ```text
//!             elected, all applied                   another one was elected
//!   standby ──────────────────────▶ a new Core, its tasks ──────────────────────▶ standby: Core and tasks are dropped
//! ```
//!
//! Promise: a call is served only while a majority has just confirmed this leader, so reads are up to date. Other
//! members answer with `StandbyException`. A leader's soft state (renewals, block leases, deletions owed) ends with its
//! term: a new leader begins as after a start. Only the datanodes are known to it, as every member receives their
//! heartbeats. A server that is alone leads from its start on. A server whose leader cannot begin, or breaks again and
//! again, stops.

use crate::admission::Admission;
use crate::command::{Command, Founding};
use crate::config::Config;
use crate::connections::Connections;
use crate::core::{Core, Parts};
use crate::free_space::Room;
use crate::live::Live;
use crate::machine::Machine;
use crate::node_calls::NodeCalls;
use crate::node_registry::{NodeRegistry, RegistrationRefusals};
use crate::peers::Peers;
use crate::report::Turns;
use crate::revocation::{counts, is_believed};
use crate::session::Session;
use crate::start_error::StartError;
use crate::telemetry::Telemetry;
use crate::users::Users;
use crate::{audit, refusal, tasks};
use hdfs::Exception;
use io::Clock;
use io::task::Owned;
use lead::Cluster;
use raft::{Raft, RaftError, Standing};
use rpc::{Call, Proof};
use security::joining;
use security::node_name::{Certified, NodeName};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use types::{NodeId, Random};

/// Between two tries of an elected leader to lead.
const TRY_PAUSE: Duration = Duration::from_millis(200);
/// A leader that could not begin, or whose memory broke, so many times with little time between is of no use. This
/// server stops, so that another one leads, or its administrator sees why.
const FAULT_COUNT_MAX: u32 = 10;
/// After such a time without a fault they are counted anew.
const FAULTS_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// How often a leader could not begin, or broke.
#[derive(Debug, Default)]
struct LeaderFaults {
    count: u32,
    last: Duration,
}

impl LeaderFaults {
    /// True: it is enough.
    fn note(&mut self, now: Duration) -> bool {
        let is_old = now.saturating_sub(self.last) > FAULTS_FORGOTTEN_AFTER;
        self.count = if is_old { 1 } else { self.count + 1 };
        self.last = now;
        self.count >= FAULT_COUNT_MAX
    }
}

/// Checks of the file system at a time; further callers get the answer to come back, unless one is for a client that
/// is slow to take it. Each holds a page of the tree, and
/// what repair knows.
const CHECK_COUNT_MAX: usize = 2;

pub(crate) struct Leadership {
    pub(crate) config: Config,
    pub(crate) machine: Arc<Machine>,
    pub(crate) raft: Raft<Machine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) users: Arc<Users>,
    pub(crate) heard: Arc<NodeRegistry>,
    /// Registrations that are refused.
    pub(crate) refusals: RegistrationRefusals,
    pub(crate) admission: Arc<Admission>,
    pub(crate) room: Arc<Room>,
    /// `None`: no calls are written down.
    pub(crate) audit: Option<audit::Log>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) live: Arc<Live>,
    pub(crate) calls: Arc<NodeCalls>,
    /// `None`: alone.
    pub(crate) peers: Option<Arc<Peers>>,
    /// For checks of the file system.
    pub(crate) checks: Turns,
    /// Where this server listens, once it does.
    pub(crate) rpc_addr: OnceLock<SocketAddr>,
    /// Of the same port.
    pub(crate) rpc_usage: OnceLock<rpc::UsageReader>,
    taken: Mutex<Option<Taken>>,
    /// The term in which this member began to lead last.
    last_taken: AtomicU64,
}

/// How others are reached.
pub(crate) struct Ways {
    pub(crate) calls: Arc<NodeCalls>,
    /// `None`: this server is alone.
    pub(crate) peers: Option<Arc<Peers>>,
}

/// The time of one leadership.
struct Taken {
    term: u64,
    core: Arc<Core>,
    tasks: Vec<Owned<()>>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership").field("leads", &self.core().is_some()).finish_non_exhaustive()
    }
}

impl Leadership {
    pub(crate) fn new(
        config: Config,
        machine: Arc<Machine>,
        raft: Raft<Machine>,
        clock: Arc<dyn Clock>,
        ways: Ways,
        users: Users,
        room: Arc<Room>,
    ) -> Self {
        let users = Arc::new(users);
        let Ways { calls, peers } = ways;
        let (its_config, its_calls, owner) = (config.clone(), Arc::clone(&calls), users.owner().to_owned());
        let connections = Arc::<Connections>::default();
        let (its_raft, its_clock, its_connections) = (raft.clone(), Arc::clone(&clock), Arc::clone(&connections));
        let admission = Admission::new(its_config, its_raft, its_clock, its_calls, owner, its_connections);
        Self {
            live: Arc::new(Live::new(&config)),
            config,
            machine,
            raft,
            clock,
            connections,
            users,
            heard: Arc::default(),
            refusals: RegistrationRefusals::default(),
            admission: Arc::new(admission),
            room,
            audit: None,
            telemetry: Arc::default(),
            calls,
            peers,
            checks: Turns::new(CHECK_COUNT_MAX),
            rpc_addr: OnceLock::new(),
            rpc_usage: OnceLock::new(),
            taken: Mutex::default(),
            last_taken: AtomicU64::new(0),
        }
    }

    /// Calls are written down from then on.
    pub(crate) fn audited(self, audit: Option<audit::Log>) -> Self {
        Self { audit, ..self }
    }

    /// It counts into a registry from then on.
    pub(crate) fn counting(self, telemetry: Telemetry) -> Self {
        Self { telemetry: Arc::new(telemetry), ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller of a call.
    pub(crate) async fn session(&self, call: &Call) -> Result<Session, Exception> {
        if call.user.proof.member().is_some() {
            self.admission.admit_superuser(call.peer, &call.user.proof).await?;
        }
        self.session_to_admit(call).await
    }

    /// The same, of a call that [`Admission`] looks at next: it also decides of those that are looked at alone.
    pub(crate) async fn session_to_admit(&self, call: &Call) -> Result<Session, Exception> {
        self.must_count(&call.user.proof)?;
        Session::of(&self.users, &self.connections, call, self.clock.monotonic()).await
    }

    /// Refuses a datanode whose certificate was revoked, also over a connection that was opened before.
    pub(crate) fn must_count(&self, proof: &Proof) -> Result<(), Exception> {
        let Proof::Node(Certified { name: NodeName::Datanode(id), issued_at }) = *proof else { return Ok(()) };
        let before = joining::revoked_before(&self.machine.store().view(), id).map_err(refusal::rows)?;
        if counts(issued_at, before) { Ok(()) } else { Err(refusal::revoked(id)) }
    }

    /// Whether an open connection of a node goes on. While rows cannot be read it does, and each call is refused.
    pub(crate) fn still_counts(&self, peer: SocketAddr, node: &Certified) -> bool {
        match node.name {
            NodeName::Datanode(id) => joining::revoked_before(&self.machine.store().view(), id)
                .map_or(true, |before| counts(node.issued_at, before)),
            NodeName::Member(id) => self.admission.still_counts(peer, id),
        }
    }

    /// Groups are read again, of everybody.
    pub(crate) fn forget_groups(&self) {
        self.users.forget();
        self.connections.forget_users();
    }

    /// A connection has ended. If it was a datanode's, the process is probably gone: the next blocks go elsewhere until
    /// its next heartbeat.
    pub(crate) fn hung_up(&self, peer: SocketAddr) {
        let node = self.connections.closed(peer);
        node.into_iter().for_each(|node| self.disconnected(node));
    }

    /// The connection over which a node registered last has ended.
    pub(crate) fn disconnected(&self, node: NodeId) {
        if let Some(core) = self.core()
            && let Some(mut leader) = core.leader_unless_broken()
        {
            leader.cluster.on_disconnected(node);
        }
    }

    /// What the leader works with, while this member takes itself for it.
    pub(crate) fn core(&self) -> Option<Arc<Core>> {
        self.taken_core().filter(|core| !core.is_broken())
    }

    fn taken_core(&self) -> Option<Arc<Core>> {
        self.lock().as_ref().map(|taken| Arc::clone(&taken.core))
    }

    /// Whether this member leads, as a majority said a moment ago.
    pub(crate) fn is_sure(&self) -> bool {
        self.core().is_some() && self.raft.is_sure()
    }

    /// As [`Leadership::core`], if the leadership is sure at this moment.
    pub(crate) async fn leading(&self) -> Result<Arc<Core>, Exception> {
        let taken = self.lock().as_ref().map(|taken| (Arc::clone(&taken.core), taken.term));
        let Some((core, term)) = taken else { return Err(self.standby()) };
        match self.raft.confirm().await {
            Ok(confirmed) if confirmed == term && !core.is_broken() => Ok(core),
            Ok(_) | Err(RaftError::NotLeader { .. }) => Err(self.standby()),
            Err(error) => Err(refusal::raft(error)),
        }
    }

    /// The exception on which clients go to the next server.
    pub(crate) fn standby(&self) -> Exception {
        refusal::standby(self.leader_addr().as_deref())
    }

    /// Where the member is that leads, if that is another one.
    pub(crate) fn leader_addr(&self) -> Option<String> {
        let group = self.raft.group();
        // A former leader that is not sure of its leadership redirects no caller to itself.
        let leader = group.leader.filter(|id| *id != self.config.id)?;
        let leader = group.members.into_iter().find(|member| member.id == leader)?;
        Some(self.addr_of(leader.id, &leader.addr))
    }

    pub(crate) fn term(&self) -> u64 {
        self.lock().as_ref().map_or(0, |taken| taken.term)
    }

    /// Where a member is reached, as far as this one knows.
    pub(crate) fn addr_of(&self, id: u64, written: &str) -> String {
        match (&self.peers, self.rpc_addr.get()) {
            (Some(peers), _) => peers.addr(id, written).to_owned(),
            // A store that never was a group has written no address of its only member.
            (None, Some(addr)) => addr.to_string(),
            (None, None) => self.config.rpc_addr.to_string(),
        }
    }

    /// This member's id, and the addresses of all; zero and an empty list for a server that is alone. So datanodes
    /// learn of new members.
    pub(crate) fn members(&self) -> (u64, Vec<wire::node::Member>) {
        if self.peers.is_none() {
            return (0, Vec::new());
        }
        let members = self.raft.group().members.into_iter();
        let members = members.map(|member| {
            let addr = self.addr_of(member.id, &member.addr);
            wire::node::Member { id: member.id, addr }
        });
        (self.config.id, members.collect())
    }

    /// Follows the elections for ever.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut standing = self.raft.standing();
        let (mut faults, mut heard_of) = (LeaderFaults::default(), None);
        loop {
            let now = *standing.borrow_and_update();
            match now {
                Standing::Leading { term } if self.term() != term => {
                    self.leave();
                    // A task of its own, as a panic in it must not end this one.
                    let leadership = Arc::clone(&self);
                    let taking =
                        io::task::spawn_owned("take the leadership", async move { leadership.take(term).await });
                    let fault = match taking.await {
                        Ok(Ok(())) => None,
                        // Raft's own faults stop the server by themselves, and elections pass.
                        Ok(Err(StartError::Raft(error))) => Some((error.to_string(), false)),
                        Ok(Err(error)) => Some((error.to_string(), true)),
                        Err(ended) => Some((ended.to_string(), true)),
                    };
                    if let Some((error, counts)) = fault {
                        tracing::warn!(error, "cannot begin to lead; retrying");
                        if counts && faults.note(self.clock.monotonic()) {
                            return self.stop(&error);
                        }
                        io::time::sleep(TRY_PAUSE).await;
                        continue;
                    }
                }
                Standing::Leading { .. } => heard_of = None,
                Standing::Standby { .. } => {
                    self.leave();
                    let addr = self.leader_addr();
                    if let Some(addr) = addr.filter(|addr| heard_of.as_ref() != Some(addr)) {
                        tracing::info!(member = self.config.id, leader = addr, "another server leads");
                        heard_of = Some(addr);
                    }
                }
            }
            let leader = self.taken_core();
            let broken = async {
                match &leader {
                    Some(core) => core.broken().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = standing.changed() => {
                    if changed.is_err() {
                        return; // Raft has ended; whoever watches it ends this server
                    }
                }
                () = broken => {
                    tracing::error!("leader state dropped after a panic; rebuilding it from the rows");
                    self.leave();
                    if faults.note(self.clock.monotonic()) {
                        return self.stop("its memory breaks each time");
                    }
                    io::time::sleep(TRY_PAUSE).await;
                }
            }
        }
    }

    fn stop(&self, reason: &str) {
        self.raft.stop(format_args!("this server was elected, and cannot begin to lead: {reason}"));
    }

    /// All is applied: loads the picture, counts every lease as just renewed, and serves.
    pub(crate) async fn take(self: &Arc<Self>, term: u64) -> Result<(), StartError> {
        let pool = self.found().await?;
        let leadership = Arc::clone(self);
        let core = io::task::blocking(move || {
            leadership.machine.follow(|| {
                let Leadership { config, machine, raft, clock, heard, connections, room, .. } = &*leadership;
                let Leadership { calls, telemetry, live, users, .. } = &*leadership;
                // Named at random, so that ids leased by another time than this are never taken for its own.
                let mut cluster = Cluster::load(&machine.store().view(), io::OsRandom::new().next_u64())?;
                cluster.set_container_len_max(config.container_len);
                // A standby hears of a revocation by the rows alone.
                let is_believed = |node| is_believed(machine, connections, node);
                heard.restore_into(&mut cluster, config.topology_script.is_some(), &is_believed)?;
                Core::new(Parts {
                    config: config.clone(),
                    machine: Arc::clone(machine),
                    cluster,
                    raft: raft.clone(),
                    clock: Arc::clone(clock),
                    heard: Arc::clone(heard),
                    connections: Arc::clone(connections),
                    room: Arc::clone(room),
                    calls: Arc::clone(calls),
                    telemetry: Arc::clone(telemetry),
                    live: Arc::clone(live),
                    users: Arc::clone(users),
                    pool,
                    term,
                })
            })
        });
        let core = core.await?;
        if self.last_taken.swap(term, Ordering::Relaxed) == term {
            // Datanodes send a leader of another term their catalogues, and this one again only after minutes.
            core.leader().ask_for_catalogues();
        }
        let mut tasks = tasks::start(&core);
        tracing::info!(member = self.config.id, term, "leadership taken");
        if let Some(peers) = &self.peers {
            // For those that joined, which have no list of their own.
            let (raft, listed) = (self.raft.clone(), peers.listed());
            tasks.push(io::task::spawn_owned("addresses", async move {
                if let Err(error) = raft.readdress(&listed).await {
                    tracing::info!(%error, "addresses of members not corrected");
                }
            }));
        }
        let before = self.lock().replace(Taken { term, core, tasks });
        assert!(before.is_none(), "duplicate leadership on this server");
        Ok(())
    }

    /// Ends the time of a leader, if there is one here.
    pub(crate) fn leave(&self) {
        let taken = self.lock().take();
        let Some(Taken { term, core, tasks }) = taken else { return };
        drop(tasks);
        core.recoveries.stop();
        self.machine.unfollow();
        if self.peers.is_some() {
            tracing::info!(member = self.config.id, term, "leadership lost");
        }
    }

    /// Makes an empty store, unless there is one. Returns the block pool.
    async fn found(&self) -> Result<String, StartError> {
        if let Some(founding) = self.machine.founding()? {
            return Ok(founding.pool);
        }
        let now = self.clock.now();
        let format =
            namespace::Format { owner: self.users.owner().to_owned(), group: self.users.supergroup().to_owned() };
        let request = namespace::Request { now, caller: namespace::Caller::system(), retry: None, op: format.into() };
        self.raft.propose(Command::Namespace(request)).await?;
        let random = io::OsRandom::new().next_u64() >> 32;
        let pool = format!("BP-{random}-{}-{}", self.config.rpc_addr.ip(), now.0);
        // Last, so that a store that has a pool has all the rest too.
        self.raft.propose(Command::Found(Founding { pool })).await?;
        // Another leader may have been first.
        let founding = self.machine.founding()?;
        let reason = "the store was not founded; the log tells why, report it";
        founding.map(|founding| founding.pool).ok_or_else(|| RaftError::Members { reason: reason.into() }.into())
    }
}
