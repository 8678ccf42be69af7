//! The state that commands are applied to, and how openraft drives it.

use crate::entry::Position;
use crate::{Entry, LogId, SnapshotMeta, StoredMembership, Types};
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, Snapshot};
use serde::{Serialize, de::DeserializeOwned};
use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The state could not be changed or kept. The node stops: going on would leave a hole.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

impl MachineError {
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<types::rows::RowsError> for MachineError {
    fn from(error: types::rows::RowsError) -> Self {
        Self::new(error)
    }
}

/// State that is a function of the commands applied to it, and that keeps itself.
pub trait Machine: Send + Sync + 'static {
    type Command: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    type Reply: Debug + Send + Sync + 'static;

    /// What the last [`Machine::apply`] that survived was given as `position`; `None` for a new machine.
    fn position(&self) -> Option<Vec<u8>>;

    /// Applies one entry; `None` is one that only moves the position, and nobody waits for its reply. `position` is kept
    /// with the change: after a restart the machine has both, or neither.
    fn apply(&self, position: &[u8], command: Option<Self::Command>) -> Result<Self::Reply, MachineError>;

    /// Makes all that was applied so far durable. May take its time; entries are applied meanwhile.
    fn flush(&self) -> Result<(), MachineError>;
}

/// A reply on its way through openraft, which need not know its type.
pub(crate) struct Outcome(pub Box<dyn Any + Send + Sync>);

/// A machine as openraft uses it.
pub(crate) struct Driver<M> {
    machine: Arc<M>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    applied: Position,
    /// As far as the machine is durable. That is what a "snapshot" is here: the machine's own store.
    flushed: Option<Position>,
}

impl<M> Clone for Driver<M> {
    fn clone(&self) -> Self {
        Self { machine: Arc::clone(&self.machine), state: Arc::clone(&self.state) }
    }
}

impl<M: Machine> Driver<M> {
    pub(crate) fn new(machine: Arc<M>) -> io::Result<Self> {
        let flushed = machine.position().map(|bytes| Position::decode(&bytes)).transpose()?;
        let state = State { applied: flushed.clone().unwrap_or_default(), flushed };
        Ok(Self { machine, state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if something was applied that is not durable yet.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state();
        state.applied.applied != state.flushed.as_ref().and_then(|flushed| flushed.applied)
    }

    fn apply_one(&self, entry: Entry) -> io::Result<Outcome> {
        let mut applied = self.state().applied.clone();
        applied.applied = Some(entry.log_id);
        let command = match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(command) => Some(crate::entry::decode::<M::Command>(&command.0, "command")?),
            EntryPayload::Membership(membership) => {
                applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                None
            }
        };
        let position = applied.encode();
        // A panic is as bad as an error: openraft must stop, not lose the task without a word.
        let run = AssertUnwindSafe(|| self.machine.apply(&position, command));
        let reply = catch_unwind(run).unwrap_or_else(|_| Err(MachineError("a panic; see the log".into())));
        let reply = reply.map_err(|error| {
            tracing::error!(%error, entry = %entry.log_id, "a command could not be applied; this node stops");
            io::Error::other(error)
        })?;
        self.state().applied = applied;
        Ok(Outcome(Box::new(reply)))
    }

    fn snapshot_of(position: &Position) -> Snapshot2 {
        let meta = SnapshotMeta { last_log_id: position.applied, last_membership: position.membership.clone() };
        Snapshot { meta, snapshot: () }
    }
}

/// The machine's own store is the snapshot, so there is nothing to carry. A member that joins will need a copy of it:
/// then this becomes the open copy of the store (LMDB makes one online), and `network` streams it.
type SnapshotData = ();
type Snapshot2 = openraft::alias::SnapshotOf<Types, SnapshotData>;

impl<M: Machine> RaftSnapshotBuilder<Types> for Driver<M> {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot2> {
        // What is applied by now is what the flush will at least contain.
        let applied = self.state().applied.clone();
        let machine = Arc::clone(&self.machine);
        ::io::task::blocking(move || machine.flush()).await.map_err(io::Error::other)?;
        let snapshot = Self::snapshot_of(&applied);
        self.state().flushed = Some(applied);
        Ok(snapshot)
    }
}

impl<M: Machine> RaftStateMachine<Types> for Driver<M> {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let state = self.state();
        Ok((state.applied.applied, state.applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let outcome = self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(outcome);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, (): SnapshotData) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a single member has nobody to take a snapshot from"))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot2>> {
        Ok(self.state().flushed.as_ref().map(Self::snapshot_of))
    }
}
