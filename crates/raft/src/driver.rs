//! How openraft drives the machine.
//!
//! [`Driver`] flushes the machine when openraft asks for a snapshot, and the log may then be cut. To a member that lags
//! behind the cut the state itself is sent: the machine exports it while it is in use, and the other one puts it in the
//! place of its own.

use crate::digests::Digests;
use crate::level::{self, check_level};
use crate::machine::Machine;
use crate::machine_error::MachineError;
use crate::meters::Meters;
use crate::position::Position;
use crate::snapshot::{Import, SnapshotData};
use crate::stop::Stop;
use crate::synced::Synced;
use crate::types::{Entry, LogId, Outcome, Payload, Snapshot, SnapshotMeta, StoredMembership, Types};
use ::io::simulated;
use ::types::RowsDigest;
use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use tokio::sync::{Notify, oneshot, watch};

/// A machine, and how far it is.
pub(crate) struct Driver<M> {
    machine: Arc<M>,
    shared: Arc<Shared>,
    meters: Meters,
}

struct Shared {
    /// Held while the state is brought to disk, or replaced.
    keeping: Mutex<()>,
    state: Mutex<State>,
    running: AtomicBool,
    synced: Synced,
    stop: Stop,
    /// Something was applied that is not durable.
    behind: Notify,
    /// The machine asks for a flush now.
    large: Notify,
    /// Counts flushes.
    flushed: watch::Sender<u64>,
}

struct State {
    applied: Position,
    /// As far as the machine is durable.
    flushed: Position,
    digests: Digests,
}

impl<M> Clone for Driver<M> {
    fn clone(&self) -> Self {
        Self { machine: Arc::clone(&self.machine), shared: Arc::clone(&self.shared), meters: self.meters.clone() }
    }
}

/// Entries applied at once, or handed to the thread. A guess: a millisecond of work.
const RUN_COUNT: usize = 64;

/// Entries to apply, and whom to tell when that is done.
type Run = (Vec<EntryResponder<Types>>, oneshot::Sender<io::Result<()>>);

/// The end that openraft holds. Where the machine may wait for a page of its store, or for a flush when too much is in
/// memory, a thread of its own applies what comes in: it must find one even when all others wait for it.
pub(crate) struct Applier<M> {
    driver: Driver<M>,
    /// `None`: the member runs in a simulation, and has no threads.
    runs: Option<mpsc::Sender<Run>>,
}

impl<M: Machine> Applier<M> {
    pub(crate) fn start(driver: Driver<M>) -> io::Result<Self> {
        if simulated::is_simulated() {
            return Ok(Self { driver, runs: None });
        }
        let (runs, work) = mpsc::channel::<Run>();
        let applied_by = driver.clone();
        ::io::task::thread("raft apply", move || {
            while let Ok((entries, done)) = work.recv() {
                let applied = applied_by.apply_while(|| true, &mut entries.into_iter());
                let _openraft_may_have_ended = done.send(applied);
            }
        })?;
        Ok(Self { driver, runs: Some(runs) })
    }
}

impl<M: Machine> Driver<M> {
    pub(crate) fn new(machine: Arc<M>, synced: Synced, stop: Stop) -> io::Result<Self> {
        check_level(&*machine).map_err(io::Error::other)?;
        let flushed = machine.position().map(|bytes| Position::decode(&bytes)).transpose()?.unwrap_or_default();
        let digests = first_digest(&*machine, &flushed);
        let shared = Shared {
            keeping: Mutex::default(),
            state: Mutex::new(State { applied: flushed.clone(), flushed, digests }),
            running: AtomicBool::new(false),
            synced,
            stop,
            behind: Notify::new(),
            large: Notify::new(),
            flushed: watch::Sender::new(0),
        };
        Ok(Self { machine, shared: Arc::new(shared), meters: Meters::default() })
    }

    /// It counts into these from then on.
    pub(crate) fn counting(self, meters: Meters) -> Self {
        Self { meters, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn position(&self) -> Position {
        self.state().applied.clone()
    }

    /// The last entry that the machine has for good.
    pub(crate) fn flushed(&self) -> Option<LogId> {
        self.state().flushed.applied
    }

    /// True if something was applied that is not durable yet.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state();
        state.applied.applied != state.flushed.applied
    }

    /// Comes back when something was applied that may not be durable yet.
    pub(crate) async fn wait_behind(&self) {
        self.shared.behind.notified().await;
    }

    /// Comes back when the machine asks for a flush.
    pub(crate) async fn wait_large(&self) {
        self.shared.large.notified().await;
    }

    pub(crate) fn watch_flushes(&self) -> watch::Receiver<u64> {
        self.shared.flushed.subscribe()
    }

    /// Applies entries in order, as long as `goes_on`; each answer goes out at once.
    fn apply_while(
        &self,
        goes_on: impl Fn() -> bool,
        entries: &mut impl Iterator<Item = EntryResponder<Types>>,
    ) -> io::Result<()> {
        let (began, mut count) = (self.meters.now(), 0);
        while goes_on()
            && let Some((entry, responder)) = entries.next()
        {
            count += 1;
            let outcome = self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(outcome);
            }
        }
        if count > 0 {
            self.meters.applies.observe(self.meters.since(began));
            self.meters.apply_counts.observe_count(count);
        }
        self.shared.behind.notify_one();
        if self.machine.is_large() {
            self.shared.large.notify_one();
        }
        Ok(())
    }

    fn apply_one(&self, entry: Entry) -> io::Result<Outcome> {
        let id = entry.log_id;
        let mut position = self.state().applied.clone();
        position.applied = Some(id);
        if !self.shared.synced.has(id.index) {
            // The others have it on disk. If this one is brought to disk before the log is, the next start is not to
            // take the log for damaged.
            position.ahead = Some(id);
        }
        let reply = match entry.payload {
            Payload::Blank => self.guarded(|| self.machine.apply(&position.encode(), None)),
            Payload::Membership(membership) => {
                position.members = Position::members_of(id, membership);
                self.guarded(|| self.machine.apply(&position.encode(), None))
            }
            Payload::Normal(command) => self.guarded(|| {
                let command = level::decode(&*self.machine, &command.0).map_err(MachineError::new)?;
                self.machine.apply(&position.encode(), Some(command))
            }),
        };
        let reply = reply.map_err(|error| self.fault(&format!("entry {} could not be applied", id.index), &error))?;
        let digest = self.machine.digest();
        let mut state = self.state();
        state.applied = position;
        if let Some(digest) = digest {
            state.digests.push(id.index, digest);
        }
        drop(state);
        Ok(Outcome(Box::new(reply)))
    }

    /// A panic is as bad as an error: openraft must stop, not lose a task without a word.
    fn guarded<T>(&self, run: impl FnOnce() -> Result<T, MachineError>) -> Result<T, MachineError> {
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(MachineError(format!("it panicked: {}", ::io::task::panic_text(&*panic)))))
    }

    fn fault(&self, what: &str, error: &MachineError) -> io::Error {
        let reason = format!("{what}: {error}");
        self.shared.stop.because(&reason);
        io::Error::other(reason)
    }

    /// Puts another member's state in the place of ours.
    fn install(&self, meta: &SnapshotMeta, import: Box<dyn Import>) -> io::Result<()> {
        let _one = self.shared.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = meta.last_log_id;
        let position = Position { applied, members: Arc::new(meta.last_membership.clone().into()), ahead: applied };
        self.guarded(|| import.install(&position.encode()).and_then(|()| check_level(&*self.machine)))
            .map_err(|error| self.fault("another member's state could not be put in place", &error))?;
        let digests = first_digest(&*self.machine, &position);
        let mut state = self.state();
        state.digests = digests;
        state.applied = position.clone();
        state.flushed = position;
        Ok(())
    }

    /// The state as it is on disk, to be sent. If it cannot be read now, whoever sends it finds nothing and tries
    /// again.
    fn export(&self) -> Option<Snapshot> {
        let flushed = self.state().flushed.clone();
        flushed.applied?;
        let export = self.guarded(|| {
            let export = self.machine.export()?;
            let position = Position::decode(&export.position()?).map_err(MachineError::new)?;
            Ok(snapshot_of(position, SnapshotData::Out(export)))
        });
        Some(export.unwrap_or_else(|error| {
            tracing::error!(%error, "the state cannot be read for another member");
            snapshot_of(flushed, SnapshotData::Nothing)
        }))
    }

    pub(crate) fn level(&self) -> u8 {
        self.machine.level()
    }

    pub(crate) fn level_max(&self) -> u8 {
        self.machine.level_max()
    }

    /// The digest of the rows after this entry, if it is one of the last that were applied.
    pub(crate) fn digest(&self, index: u64) -> Option<RowsDigest> {
        self.state().digests.at(index)
    }

    /// From here on snapshots are asked for by who sends them.
    pub(crate) fn set_running(&self) {
        self.shared.running.store(true, Ordering::Relaxed);
    }

    /// Brings to disk what was applied by now, and tells how far that is.
    pub(crate) fn flush(&self) -> io::Result<Position> {
        let _one = self.shared.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let (applied, began) = (self.state().applied.clone(), self.meters.now());
        self.guarded(|| self.machine.flush()).map_err(|error| self.fault("the state could not be kept", &error))?;
        self.meters.flushes.observe(self.meters.since(began));
        self.state().flushed = applied.clone();
        self.shared.flushed.send_modify(|count| *count += 1);
        Ok(applied)
    }
}

/// Of a state that was not made by applying entries here.
fn first_digest(machine: &impl Machine, position: &Position) -> Digests {
    let mut digests = Digests::default();
    if let (Some(id), Some(digest)) = (position.applied, machine.digest()) {
        digests.push(id.index, digest);
    }
    digests
}

fn snapshot_of(position: Position, snapshot: SnapshotData) -> Snapshot {
    let meta = SnapshotMeta { last_log_id: position.applied, last_membership: position.members.membership.clone() };
    Snapshot { meta, snapshot }
}

/// Returns when the tasks that are ready have had their turn.
async fn let_others_run() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<M: Machine> RaftSnapshotBuilder<Types> for Driver<M> {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let driver = self.clone();
        let position = ::io::task::blocking(move || driver.flush()).await?;
        Ok(snapshot_of(position, SnapshotData::Nothing))
    }
}

impl<M: Machine> RaftStateMachine<Types> for Applier<M> {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Driver<M>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let state = self.driver.state();
        Ok((state.applied.applied, state.applied.members.membership.clone()))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let ended = || io::Error::other("the thread that applies entries has ended");
        let mut runs = entries.ready_chunks(RUN_COUNT);
        while let Some(run) = runs.next().await {
            let mut run = run.into_iter().collect::<io::Result<Vec<_>>>()?.into_iter();
            let runs = self.runs.as_ref();
            if runs.is_some() {
                // openraft's core may wait for this very thread, where nobody else finds it: heartbeats come first.
                let_others_run().await;
            }
            self.driver.apply_while(|| runs.is_none() || !self.driver.machine.may_wait(), &mut run)?;
            if let Some(runs) = runs.filter(|_| run.len() > 0) {
                let (done, answer) = oneshot::channel();
                runs.send((run.collect(), done)).map_err(|_| ended())?;
                answer.await.map_err(|_| ended())??;
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Driver<M> {
        self.driver.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        let SnapshotData::In(import) = snapshot else {
            return Err(io::Error::other("a snapshot that is not another member's"));
        };
        let (driver, meta) = (self.driver.clone(), meta.clone());
        ::io::task::blocking(move || driver.install(&meta, import)).await
    }

    /// Asked at the start, where the position is all that is wanted, and when a member lags.
    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        if !self.driver.shared.running.load(Ordering::Relaxed) {
            let flushed = self.driver.state().flushed.clone();
            return Ok(flushed.applied.is_some().then(|| snapshot_of(flushed, SnapshotData::Nothing)));
        }
        let driver = self.driver.clone();
        Ok(::io::task::blocking(move || driver.export()).await)
    }
}
