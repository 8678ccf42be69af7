//! What the members apply commands to: rows in memory, what a flush made of them, and the leader's picture of the block
//! side.
//!
//! It does what metad's machine does above its store, and keeps the position in the log with the rows.

use crate::rows::Journaled;
use crate::world::Mutation;
use blocks::BlocksError;
use lead::Cluster;
use namespace::{Effects, NsError, Op, tables};
use raft::{Export, Import, MachineError};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;
use types::RowsDigest;
use types::encoding;
use types::rows::{MemoryRows, RowsMut, Table};

/// Rows in a piece of a copy: few, so that there are many pieces.
const PIECE_COUNT: usize = 8;
/// Where a copy has the digest of all changes.
const DIGEST: Table = Table(34);

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Namespace(namespace::Request),
    Blocks(blocks::Command),
}
types::variants!(Command { 0 => Namespace[request], 1 => Blocks[command] });

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Nothing,
    Namespace(Result<namespace::Reply, NsError>),
    Blocks(Result<blocks::Reply, BlocksError>),
}

/// What is durable: the store changes as a whole, as `kv` does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    position: Option<Vec<u8>>,
    digest: RowsDigest,
    rows: MemoryRows,
}

pub(crate) type Store = Arc<Mutex<Kept>>;

#[derive(Default)]
struct State {
    position: Option<Vec<u8>>,
    digest: RowsDigest,
    rows: Journaled,
    /// `None` while nobody leads here.
    cluster: Option<Cluster>,
    /// What the leader has to look after.
    effects: Effects,
}

pub(crate) struct Machine {
    store: Store,
    mutation: Option<Mutation>,
    state: Arc<RwLock<State>>,
    /// Rises when there are effects.
    followed: watch::Sender<u64>,
}

/// The rows as they are now. Nothing is applied as long as somebody looks.
pub(crate) struct Sight<'a>(RwLockReadGuard<'a, State>);

impl Deref for Sight<'_> {
    type Target = MemoryRows;

    fn deref(&self) -> &MemoryRows {
        self.0.rows.rows()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(state: &RwLock<State>) -> RwLockWriteGuard<'_, State> {
    state.write().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    pub(crate) fn open(store: &Store, mutation: Option<Mutation>) -> Arc<Self> {
        let Kept { position, digest, rows } = lock(store).clone();
        let state = State { position, digest, rows: Journaled::from(rows), ..State::default() };
        let (store, state) = (Arc::clone(store), Arc::new(RwLock::new(state)));
        Arc::new(Self { store, mutation, state, followed: watch::Sender::default() })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rows(&self) -> Sight<'_> {
        Sight(self.state())
    }

    /// Term and index of the last entry it has.
    pub(crate) fn applied(&self) -> Option<(u64, u64)> {
        raft::entry_id(self.state().position.as_deref()?)
    }

    /// Takes the picture of the block side as it is now, and lets it follow every later command.
    pub(crate) fn watch_blocks(&self, lessee: u64, container_len: u64) {
        let mut state = change(&self.state);
        let mut cluster = Cluster::load(state.rows.rows(), lessee).expect("memory can be read");
        cluster.set_container_len_max(container_len);
        state.cluster = Some(cluster);
        state.effects = Effects::default();
    }

    /// What follows from changes that were applied since it was asked last.
    pub(crate) fn take_effects(&self) -> Effects {
        std::mem::take(&mut change(&self.state).effects)
    }

    /// Changes when there are some.
    pub(crate) fn followed(&self) -> watch::Receiver<u64> {
        self.followed.subscribe()
    }

    pub(crate) fn unwatch_blocks(&self) {
        change(&self.state).cluster = None;
    }

    /// `None` if this member does not lead.
    pub(crate) fn with_cluster<T>(&self, run: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        change(&self.state).cluster.as_mut().map(run)
    }

    /// As [`Machine::with_cluster`], for who only looks.
    pub(crate) fn see_cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> Option<T> {
        self.state().cluster.as_ref().map(look)
    }
}

impl raft::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn position(&self) -> Option<Vec<u8>> {
        self.state().position.clone()
    }

    fn apply(&self, position: &[u8], command: Option<Command>) -> Result<Reply, MachineError> {
        let State { position: known, digest, rows, cluster, effects } = &mut *change(&self.state);
        *known = Some(position.to_vec());
        let commit = |digest: &mut RowsDigest, rows: &mut Journaled| {
            *digest = rows.digest_after(*digest);
            rows.commit();
        };
        Ok(match command {
            None => {
                commit(digest, rows);
                Reply::Nothing
            }
            Some(Command::Namespace(request)) => {
                let applied = namespace::apply_with(rows, &request, &blocks::has_container)?;
                if applied.is_err() {
                    rows.roll_back();
                } else if self.mutation == Some(Mutation::UncountedRenames) && matches!(request.op, Op::Rename2(_)) {
                    rows.roll_back_table(tables::USAGE);
                } else if self.mutation == Some(Mutation::ForgetSafeMode) && matches!(request.op, Op::SetSafeMode(_)) {
                    rows.roll_back_table(tables::SAFE_MODE);
                }
                commit(digest, rows);
                Reply::Namespace(applied.map(|applied| {
                    if cluster.is_some() && !applied.effects.is_empty() {
                        effects.append(applied.effects);
                        self.followed.send_modify(|count| *count += 1);
                    }
                    applied.reply
                }))
            }
            Some(Command::Blocks(command)) => {
                let answer = blocks::apply_with(rows, &command, &namespace::read::is_empty)?;
                commit(digest, rows);
                if let Some(cluster) = cluster {
                    cluster.on_applied(&command, &answer);
                }
                Reply::Blocks(answer)
            }
        })
    }

    fn digest(&self) -> Option<RowsDigest> {
        Some(self.state().digest)
    }

    fn flush(&self) -> Result<(), MachineError> {
        let state = self.state();
        *lock(&self.store) =
            Kept { position: state.position.clone(), digest: state.digest, rows: state.rows.rows().clone() };
        Ok(())
    }

    fn export(&self) -> Result<Box<dyn Export>, MachineError> {
        let Kept { position, digest, rows } = lock(&self.store).clone();
        let position = position.ok_or_else(|| MachineError::new("never flushed"))?;
        let rows: Vec<Piece> = rows.iter().map(|(table, key, value)| (table.0, key.to_vec(), value.to_vec())).collect();
        // A row like any other where there is a store.
        let rows = [(DIGEST.0, Vec::new(), digest.0.to_be_bytes().to_vec())].into_iter().chain(rows).collect();
        Ok(Box::new(Copy { position, rows, given: 0 }))
    }

    fn import(&self) -> Result<Box<dyn Import>, MachineError> {
        let (store, state) = (Arc::clone(&self.store), Arc::clone(&self.state));
        Ok(Box::new(Arrival { store, state, digest: RowsDigest::default(), rows: MemoryRows::default() }))
    }
}

type Piece = (u8, Vec<u8>, Vec<u8>);

struct Copy {
    position: Vec<u8>,
    rows: Vec<Piece>,
    given: usize,
}

impl Export for Copy {
    fn position(&self) -> Result<Vec<u8>, MachineError> {
        Ok(self.position.clone())
    }

    fn chunk(&mut self, _len_max: usize) -> Result<Option<Vec<u8>>, MachineError> {
        let rest = &self.rows[self.given..];
        let piece = &rest[..rest.len().min(PIECE_COUNT)];
        self.given += piece.len();
        Ok((!piece.is_empty()).then(|| encoding::encode(&piece.to_vec(), Vec::new())))
    }
}

struct Arrival {
    store: Store,
    state: Arc<RwLock<State>>,
    digest: RowsDigest,
    rows: MemoryRows,
}

impl Import for Arrival {
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError> {
        let piece: Vec<Piece> = encoding::decode(chunk).map_err(MachineError::new)?;
        for (table, key, value) in piece {
            match <[u8; 8]>::try_from(&value[..]) {
                Ok(number) if Table(table) == DIGEST => self.digest = RowsDigest(u64::from_be_bytes(number)),
                _ => self.rows.put(Table(table), &key, value),
            }
        }
        Ok(())
    }

    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError> {
        let Self { store, state, digest, rows } = *self;
        let position = Some(position.to_vec());
        *lock(&store) = Kept { position: position.clone(), digest, rows: rows.clone() };
        *change(&state) = State { position, digest, rows: Journaled::from(rows), ..State::default() };
        Ok(())
    }
}
