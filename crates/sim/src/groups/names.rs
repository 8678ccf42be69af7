//! What the members of a group apply commands to: a namespace of rows in memory, and what a flush made of them. The
//! position in the log is kept with the rows.

use super::rows::Journaled;
use namespace::{NsError, Request};
use raft::{Export, Import, MachineError};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use types::RowsDigest;
use types::encoding;
use types::rows::{MemoryRows, RowsMut, Table};

/// Rows in a piece of a copy: few, so that there are many pieces.
const PIECE_COUNT: usize = 8;
/// Where a copy has the digest of all changes.
const DIGEST: Table = Table(34);

/// `None`: the entry was one of the group's own.
pub(super) type Reply = Option<Result<namespace::Reply, NsError>>;

/// What is durable: the store changes as a whole, as `kv` does.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    position: Option<Vec<u8>>,
    digest: RowsDigest,
    rows: MemoryRows,
}

pub(super) type Store = Arc<Mutex<Kept>>;

#[derive(Default)]
struct State {
    position: Option<Vec<u8>>,
    digest: RowsDigest,
    rows: Journaled,
}

pub(super) struct Names {
    store: Store,
    state: Arc<RwLock<State>>,
}

/// The rows as they are now. Nothing is applied as long as somebody looks.
pub(super) struct Sight<'a>(RwLockReadGuard<'a, State>);

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

impl Names {
    pub(super) fn open(store: &Store) -> Arc<Self> {
        let Kept { position, digest, rows } = lock(store).clone();
        let state = State { position, digest, rows: Journaled::from(rows) };
        Arc::new(Self { store: Arc::clone(store), state: Arc::new(RwLock::new(state)) })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self) -> Sight<'_> {
        Sight(self.state())
    }

    /// Term and index of the last entry it has.
    pub(super) fn applied(&self) -> Option<(u64, u64)> {
        raft::entry_id(self.state().position.as_deref()?)
    }
}

impl raft::Machine for Names {
    type Command = Request;
    type Reply = Reply;

    fn position(&self) -> Option<Vec<u8>> {
        self.state().position.clone()
    }

    fn apply(&self, position: &[u8], command: Option<Request>) -> Result<Reply, MachineError> {
        let State { position: known, digest, rows } = &mut *change(&self.state);
        *known = Some(position.to_vec());
        let reply = match command {
            None => None,
            Some(request) => {
                let applied = namespace::apply(rows, &request)?;
                if applied.is_err() {
                    rows.roll_back();
                }
                Some(applied.map(|applied| applied.reply))
            }
        };
        *digest = rows.digest_after(*digest);
        rows.commit();
        Ok(reply)
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
        *change(&state) = State { position, digest, rows: Journaled::from(rows) };
        Ok(())
    }
}
