//! A member of the group: starts, takes proposals, flushes the machine, stops.
//!
//! A member that is alone leads from the start on and asks nobody: its clocks are slow and its log holds nothing that
//! the machine has. Members of a group take the shorter times of [`Timing`], and keep some of the log for those who
//! lag.

use crate::agreement::{Agreement, Outcast};
use crate::disk::{Directory, Disk};
use crate::doubt::Doubt;
use crate::driver::{Applier, Driver};
use crate::founding::{self, Mistaken};
use crate::group::Group;
use crate::inbox::Inbox;
use crate::level;
use crate::limits::COMMAND_LEN_MAX;
use crate::log::{Log, LogReader};
use crate::machine::Machine;
use crate::meters::Meters;
use crate::network::Network;
use crate::raft_error::{RaftError, refused, stopped};
use crate::standing::{self, Standing};
use crate::stop::{Fault, Stop};
use crate::synced::Synced;
use crate::timing::Timing;
use crate::transport::{Peer, Transport};
use crate::types::{Command, Node, Types};
use ::io::task;
use ::io::time::{self, Moment};
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::storage::RaftLogStorage;
use openraft::{Config, ServerState, SnapshotPolicy};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

#[derive(Clone, Debug)]
pub struct Options {
    /// Where the log lies.
    pub dir: PathBuf,
    /// This member's number, the same for ever.
    pub node_id: u64,
    /// `None`: this member is alone, and stays so as long as it runs.
    pub group: Option<GroupOptions>,
}

#[derive(Clone)]
pub struct GroupOptions {
    pub transport: Arc<dyn Transport>,
    /// Who founds the group together: all must be up once. This one among them; if not, it waits to be added to a group
    /// that is there. A member that has a log does not look at it.
    pub founders: Vec<Peer>,
    pub timing: Timing,
    /// Bytes of entries that members keep behind what their machine has, in memory and on disk, for others that were
    /// away for a while; who was away for longer gets a copy of the state.
    pub retain_len: usize,
}

impl GroupOptions {
    /// A minute and more of a thousand changes a second.
    pub const RETAIN_LEN_DEFAULT: usize = 32 << 20;
}

impl fmt::Debug for GroupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupOptions").field("founders", &self.founders).finish_non_exhaustive()
    }
}

/// A cheap handle; all clones are the same member. Without a [`Raft::shutdown`] it ends when the last is dropped, and
/// the next start applies what was not flushed.
pub struct Raft<M: Machine> {
    pub(crate) inner: Arc<Inner<M>>,
}

pub(crate) struct Inner<M: Machine> {
    pub(crate) node_id: u64,
    pub(crate) raft: openraft::Raft<Types, Applier<M>>,
    pub(crate) network: Network,
    driver: Driver<M>,
    pub(crate) stop: Stop,
    pub(crate) doubt: Doubt,
    /// `None`: this member is alone.
    pub(crate) timing: Option<Timing>,
    inbox: Arc<Inbox<M>>,
    pub(crate) standing: watch::Receiver<Standing>,
    /// `None`: this member is alone.
    agreement: Option<Arc<Agreement<M>>>,
    /// Bytes of proposals that may be under way, in units of [`BUDGET_UNIT`].
    budget: Semaphore,
    meters: Meters,
    writer: Mutex<Option<JoinHandle<()>>>,
    flusher: task::Owned<()>,
    _tasks: Vec<task::Owned<()>>,
}

impl<M: Machine> Clone for Raft<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: Machine> fmt::Debug for Raft<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raft").field("leader", &self.is_leader()).finish_non_exhaustive()
    }
}

/// A second of work is what a restart applies again at most, and what the log holds.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// While a copy of the state is on its way, so many times as much of what follows it is kept at most. A guess: 256 MB
/// by default.
const RETAIN_SENDING: usize = 8;
/// A flush that takes longer is asked for again, which does nothing while it goes on.
const FLUSH_WAIT: Duration = Duration::from_secs(60);
/// A single member elects itself at once; this is for a disk that stalls.
const LEADER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Proposals under way hold at most 64 MiB: several times what a disk takes in the time of a sync.
const BUDGET_LEN: usize = 64 << 20;
/// What the smallest proposal is counted as; its way through the tasks takes about that.
const BUDGET_UNIT: usize = 1 << 10;

const _: () = assert!(COMMAND_LEN_MAX < BUDGET_LEN);

impl<M: Machine> Raft<M> {
    /// Opens the log. A member that is alone becomes leader and applies what the machine lacks before this returns; a
    /// new log makes it the only member. A member of a group is on its way then: see [`Raft::standing`]. After an error
    /// the log's directory is free again.
    pub async fn start(options: Options, machine: Arc<M>) -> Result<Self, RaftError> {
        let Options { dir, node_id, group } = options;
        Self::start_on(Arc::new(Directory::new(&dir)), node_id, group, machine).await
    }

    /// As [`Raft::start`], with the log on another disk than the machine's.
    pub async fn start_on(
        disk: Arc<dyn Disk>,
        node_id: u64,
        group: Option<GroupOptions>,
        machine: Arc<M>,
    ) -> Result<Self, RaftError> {
        Self::start_counting(disk, node_id, group, machine, Meters::default()).await
    }

    /// As [`Raft::start_on`]. What it does is counted.
    pub async fn start_counting(
        disk: Arc<dyn Disk>,
        node_id: u64,
        group: Option<GroupOptions>,
        machine: Arc<M>,
        meters: Meters,
    ) -> Result<Self, RaftError> {
        let dir = disk.path().to_owned();
        let log_error = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock => RaftError::InUse { dir: dir.clone() },
            _ => RaftError::Log { dir: dir.clone(), source },
        };
        let started = Moment::now();
        let stop = Stop::new();
        let is_alone = group.is_none();
        let open = {
            let (disk, stop, machine) = (Arc::clone(&disk), stop.clone(), Arc::clone(&machine));
            let meters = meters.clone();
            move || -> io::Result<_> {
                let synced = Synced::default();
                let driver = Driver::new(machine, synced.clone(), stop.clone())?.counting(meters.clone());
                let applier = Applier::start(driver.clone())?;
                let (log, writer) = Log::open(Arc::clone(&disk), node_id, synced, stop, meters)?;
                let diverged = Outcast::reason(&*disk)?;
                let doubt = Doubt::open(disk)?;
                if is_alone {
                    doubt.end(); // there is nobody to differ from
                }
                Ok((log, writer, driver, applier, diverged, doubt))
            }
        };
        let (mut log, writer, driver, applier, diverged, doubt) = task::blocking(open).await.map_err(log_error)?;
        let mismatch =
            || log.mismatch(&driver.position()).map(|reason| RaftError::Mismatch { dir: dir.clone(), reason });
        let diverged = diverged.map(|reason| RaftError::Diverged { dir: dir.clone(), reason });
        if let Some(refused) = diverged.or_else(mismatch) {
            drop(log);
            join(writer).await;
            return Err(refused);
        }
        let (kept, incarnation) = (log.get_log_reader().await, log.incarnation());
        let timing = group.as_ref().map(|group| group.timing);
        let network = Network::new(group.as_ref().map(|group| Arc::clone(&group.transport)), node_id, doubt.clone());
        let raft = match openraft::Raft::new(node_id, config(timing), network.clone(), log, applier).await {
            Ok(raft) => raft,
            Err(error) => {
                join(writer).await;
                return Err(stopped(&stop, &error));
            }
        };
        driver.set_running();
        let is_new = match &group {
            None => lead(&raft, node_id, incarnation, &stop).await.map(|()| false),
            Some(_) => raft.is_initialized().await.map(|is_old| !is_old).map_err(|error| stopped(&stop, &error)),
        };
        let is_new = match is_new {
            Ok(is_new) => is_new,
            Err(error) => {
                let _the_reason_is_known = raft.shutdown().await;
                join(writer).await;
                return Err(error);
            }
        };
        let flushing = Flushing {
            raft: raft.clone(),
            driver: driver.clone(),
            log: kept,
            network: network.clone(),
            doubt: doubt.clone(),
            retain_len: group.as_ref().map_or(0, |group| group.retain_len),
        };
        let flusher = task::spawn_owned("raft flush", flushing.run());
        let (told, standing) = watch::channel(standing::first(&raft));
        let mut tasks = vec![
            task::spawn_owned("raft watch", watch(raft.clone(), stop.clone())),
            task::spawn_owned("raft standing", standing::follow(raft.clone(), told)),
        ];
        let mistaken = Mistaken::default();
        if let Some(group) = group {
            let (candidate, timing) = (raft.clone(), group.timing);
            tasks.push(task::spawn_owned("raft election", async move {
                // See the inbox: a member that has just started forgot what it answered before.
                time::sleep(timing.silence()).await;
                if founding::is_sole(&candidate) {
                    time::sleep(timing.solitude().saturating_sub(timing.silence())).await;
                }
                candidate.runtime_config().elect(true);
            }));
            if is_new {
                tasks.push(task::spawn_owned("raft waiting", founding::wait(raft.clone(), node_id)));
            }
            let is_first = group.founders.iter().map(|peer| peer.id).min() == Some(node_id);
            if is_new && is_first {
                let (raft, network, mistaken) = (raft.clone(), network.clone(), mistaken.clone());
                let (members, wait) = (group.founders, group.timing.solitude());
                let first = founding::First { raft, network, incarnation, members, mistaken, wait };
                tasks.push(task::spawn_owned("raft founding", first.run()));
            }
        }
        let agreement = timing.map(|timing| {
            let outcast = Outcast { disk, stop: stop.clone() };
            let (raft, driver, network) = (raft.clone(), driver.clone(), network.clone());
            let (doubt, agreed, common_level) = (doubt.clone(), Mutex::default(), Mutex::default());
            Arc::new(Agreement { node_id, raft, driver, network, timing, outcast, doubt, agreed, common_level })
        });
        if let Some(agreement) = &agreement {
            tasks.push(task::spawn_owned("raft agreement", Arc::clone(agreement).run()));
        }
        let inbox = Arc::new(Inbox {
            node_id,
            raft: raft.clone(),
            machine,
            incarnation,
            complained: Mutex::default(),
            mistaken,
            stop: stop.clone(),
            started,
            silence: timing.map_or(Duration::ZERO, |timing| timing.silence()),
            arrival: Mutex::default(),
            agreement: agreement.clone(),
        });
        let inner = Inner {
            node_id,
            raft,
            network,
            driver,
            stop,
            doubt,
            timing,
            inbox,
            standing,
            agreement,
            budget: Semaphore::new(BUDGET_LEN / BUDGET_UNIT),
            meters,
            writer: Mutex::new(writer),
            flusher,
            _tasks: tasks,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Answers another member's message, which came over the transport. Strangers must be kept away from here.
    /// `proven`: which member the sender has proven to be; a message in the name of another one is refused then.
    pub async fn handle(&self, message: &[u8], proven: Option<u64>) -> Vec<u8> {
        self.inner.inbox.take(message, proven).await
    }

    /// Takes note of a message whose sender may be a stranger: it is not answered. One that is meant for another
    /// incarnation of this member shows that a group knows it with data that it has lost; then it neither founds nor
    /// leads. `founding` says more. `may_end`: it ends by that if it founded a group alone; otherwise it only says so
    /// in its log, as anybody can send such a message.
    pub async fn overhear(&self, message: &[u8], may_end: bool) {
        self.inner.inbox.overhear(message, may_end).await;
    }

    /// Whether this member leads, as it changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.inner.standing.clone()
    }

    /// Answers when `command` is durable and applied. If the caller stops waiting, it may be applied all the same.
    pub async fn propose(&self, command: M::Command) -> Result<M::Reply, RaftError> {
        if let Some(reason) = self.inner.stop.reason() {
            return Err(RaftError::Stopped { reason });
        }
        if let (true, Some(reason)) = (self.inner.raft.is_leader(), self.inner.doubt.reason()) {
            return Err(RaftError::Doubt { reason });
        }
        let (needed, level) = (M::level_of(&command), self.inner.driver.level());
        if needed > level {
            return Err(RaftError::Level { needed, level });
        }
        let bytes = level::encode::<M>(&command);
        if bytes.len() > COMMAND_LEN_MAX {
            return Err(RaftError::TooLong { len: bytes.len() });
        }
        let began = self.inner.meters.now();
        let units = 1 + bytes.len() / BUDGET_UNIT;
        // The semaphore is never closed; were it, the limit would be gone, not the proposal.
        let _budget = self.inner.budget.acquire_many(units as u32).await;
        let written = self.inner.raft.client_write(Command(bytes.into()));
        let written = tokio::select! {
            biased;
            written = written => written,
            () = self.cut_off() => return Err(self.not_leader()),
        };
        let outcome = written.map_err(|error| refused(&self.inner.stop, error))?.data;
        self.inner.meters.proposals.observe(self.inner.meters.since(began));
        let reply = outcome.0.downcast::<M::Reply>();
        Ok(*reply.expect("the machine of this member made the reply"))
    }

    /// Bytes of proposals under way, about, and how many there may be.
    pub fn proposal_lens(&self) -> (usize, usize) {
        (BUDGET_LEN - self.inner.budget.available_permits() * BUDGET_UNIT, BUDGET_LEN)
    }

    /// Index of the last entry that was applied here.
    pub fn applied(&self) -> Option<u64> {
        self.inner.driver.position().applied.map(|id| id.index)
    }

    pub fn is_leader(&self) -> bool {
        self.inner.stop.reason().is_none() && self.inner.raft.is_leader()
    }

    /// Index of the last entry after which all members that answered, and a majority, had the same rows; known to who
    /// leads, or led.
    pub fn agreed(&self) -> Option<u64> {
        self.inner.agreement.as_ref().and_then(|agreement| agreement.agreed())
    }

    /// The level of this member's state.
    pub fn level(&self) -> u8 {
        self.inner.driver.level()
    }

    /// The lowest level of forms that all members know, as the leader asked them last; `None` if one of them did not
    /// answer, or this member does not lead. So high the level of the state may be raised.
    pub fn common_level(&self) -> Option<u8> {
        match &self.inner.agreement {
            Some(agreement) => agreement.common_level(),
            None => Some(self.inner.driver.level_max()), // it is alone
        }
    }

    /// Why this member, if it leads, decides nothing: members have different rows, and no majority has the same.
    pub fn doubt(&self) -> Option<String> {
        self.inner.doubt.reason()
    }

    /// Who is in the group, as this member sees it.
    pub fn group(&self) -> Group {
        Group::of(&self.inner.raft.metrics().borrow_watched())
    }

    /// Index of the entry that says who is in the group, as this member sees it: it changes with the members. `None`:
    /// it belongs to none.
    pub fn members_entry(&self) -> Option<u64> {
        self.inner.raft.metrics().borrow_watched().membership_config.log_id().map(|id| id.index)
    }

    /// The index of the first entry that is still in the log: members that lack earlier ones get a copy of the state.
    pub fn first_kept(&self) -> u64 {
        self.inner.raft.metrics().borrow_watched().purged.map_or(0, |id| id.index + 1)
    }

    /// Comes back, with the reason, if a fault has stopped Raft on this node: the process had better end then, as
    /// nothing can be changed any more. Not after a [`Raft::shutdown`].
    pub async fn failed(&self) -> Fault {
        self.inner.stop.wait().await
    }

    /// Whoever uses it cannot go on: from now on this member is as after a fault of its log, and [`Raft::failed`] tells
    /// why.
    pub fn stop(&self, reason: impl fmt::Display) {
        self.inner.stop.because(reason);
    }

    /// Flushes the machine and ends; the log's directory is free afterwards. Proposals under way may or may not be
    /// applied.
    pub async fn shutdown(&self) -> Result<(), RaftError> {
        let Inner { raft, driver, stop, writer, flusher, .. } = &*self.inner;
        flusher.abort();
        // After a fault there is nothing to be kept that the log does not have.
        let flushed = if driver.is_behind() && stop.reason().is_none() {
            let driver = driver.clone();
            task::blocking(move || driver.flush()).await.map(drop)
        } else {
            Ok(())
        };
        let ended = raft.shutdown().await;
        let thread = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        join(thread).await;
        flushed.map_err(|error| RaftError::Stopped { reason: error.to_string() })?;
        ended.map_err(|error| RaftError::Stopped { reason: error.to_string() })
    }
}

/// Becomes the leader and applies what was proposed before.
async fn lead<M: Machine>(
    raft: &openraft::Raft<Types, Applier<M>>,
    node_id: u64,
    incarnation: u64,
    stop: &Stop,
) -> Result<(), RaftError> {
    if raft.is_initialized().await.map_err(|error| stopped(stop, &error))? {
        let voters = raft.voter_ids().count();
        if voters > 1 {
            return Err(RaftError::Several);
        }
        raft.trigger().elect(false).await.map_err(|error| stopped(stop, &error))?;
    } else {
        let begun = raft.initialize(BTreeMap::from([(node_id, Node { incarnation, ..Node::default() })])).await;
        begun.map_err(|error| RaftError::Stopped { reason: stop.reason().unwrap_or(error.to_string()) })?;
    }
    let led = raft.wait(Some(LEADER_WAIT_MAX)).state(ServerState::Leader, "becoming leader").await;
    led.map_err(|_| match stop.reason() {
        Some(reason) => RaftError::Stopped { reason },
        None => RaftError::NoLeader { waited: LEADER_WAIT_MAX },
    })?;
    // An entry of our own term: once it is applied, so is everything before it.
    raft.write_blank().await.map_err(|error| refused(stop, error))?;
    Ok(())
}

/// The writer ends when openraft has let go of the log, and lets go of the directory.
async fn join(writer: Option<JoinHandle<()>>) {
    let Some(writer) = writer else { return };
    let _a_panic_was_reported = task::blocking(move || writer.join()).await;
}

fn config(timing: Option<Timing>) -> Arc<Config> {
    let config = Config {
        cluster_name: "levada".into(),
        // We ask for snapshots ourselves, and cut the log ourselves.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        purge_batch_size: 1,
        // A leader that restarts gets a new term: so it need not know how far it had committed.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    let config = match timing {
        // A single member has nobody to hear from or to outvote: slow ticks cost nothing.
        None => {
            Config { heartbeat_interval: 5_000, election_timeout_min: 15_000, election_timeout_max: 30_000, ..config }
        }
        Some(timing) => Config {
            heartbeat_interval: timing.heartbeat_ms,
            election_timeout_min: timing.election_min_ms,
            election_timeout_max: timing.election_max_ms,
            // Begun when this member has been up for a while.
            enable_elect: false,
            // A member that comes back does not end the term of a leader that all others hear.
            enable_pre_vote: Some(true),
            // The others sync while we do.
            broadcast_submitted_on_append: Some(true),
            backoff: "50ms 100ms 200ms ...500ms".into(),
            ..config
        },
    };
    Arc::new(config.validate().expect("constants that fit each other"))
}

/// Lets the machine catch up with the log, and cuts the log behind it.
struct Flushing<M: Machine> {
    raft: openraft::Raft<Types, Applier<M>>,
    driver: Driver<M>,
    log: LogReader,
    network: Network,
    doubt: Doubt,
    retain_len: usize,
}

impl<M: Machine> Flushing<M> {
    /// Rests while nothing is applied.
    async fn run(self) {
        let mut flushes = self.driver.watch_flushes();
        loop {
            self.driver.wait_behind().await;
            tokio::select! {
                biased;
                () = time::sleep(FLUSH_INTERVAL) => {}
                () = self.driver.wait_large() => {}
            }
            while self.driver.is_behind() {
                flushes.mark_unchanged();
                // To openraft a flush is a snapshot. If it fails, everything ends.
                if self.raft.trigger().snapshot().await.is_err() {
                    return;
                }
                if time::timeout(FLUSH_WAIT, flushes.changed()).await.is_ok() {
                    break; // what was applied meanwhile has left its own notice
                }
            }
            if self.cut().await.is_err() {
                return;
            }
        }
    }

    /// Gives back what nobody will ask for any more.
    async fn cut(&self) -> Result<(), Fatal<Types>> {
        let Some(flushed) = self.driver.flushed() else { return Ok(()) };
        // openraft must know of the flush, or it would cut less.
        let wait = self.raft.wait(Some(FLUSH_WAIT));
        let knows = wait.metrics(|metrics| metrics.snapshot >= Some(flushed), "a flush");
        let _if_not_the_next_cuts_more = knows.await;
        let is_alone = self.raft.voter_ids().chain(self.raft.learner_ids()).count() <= 1;
        let mut upto = flushed.index;
        if !is_alone {
            let beyond = |len| self.log.beyond(len).unwrap_or(0);
            upto = upto.min(beyond(self.retain_len));
            if let Some(sending) = self.network.sending() {
                upto = upto.min(sending.max(beyond(RETAIN_SENDING * self.retain_len)));
            }
        }
        // In doubt a member that comes back is to apply the log, and not to get a copy.
        if upto == 0 || self.doubt.is_set() { Ok(()) } else { self.raft.trigger().purge_log(upto).await }
    }
}

/// Openraft's own end is a reason to stop too, if nothing else was.
async fn watch<M: Machine>(raft: openraft::Raft<Types, Applier<M>>, stop: Stop) {
    let mut metrics = raft.server_metrics();
    // These change at elections only; when openraft ends, so do they.
    while metrics.changed().await.is_ok() {}
    match raft.metrics().borrow_watched().running_state.clone() {
        Ok(()) | Err(Fatal::Stopped) => {}
        Err(fatal) => stop.because(fatal),
    }
}
