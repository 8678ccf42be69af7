//! What the members apply commands to: rows of the namespace in memory, and what a flush made of them.

use crate::rows::Journaled;
use namespace::{NsError, Reply, Request};
use raft::{Export, Import, Machine, MachineError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::rows::{MemoryRows, RowsMut, Table};

/// Rows in a piece of a copy: few, so that there are many pieces.
const PIECE_COUNT: usize = 8;

/// What is durable: the store changes as a whole, as `kv` does.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    position: Option<Vec<u8>>,
    rows: MemoryRows,
}

pub(super) type Store = Arc<Mutex<Kept>>;

#[derive(Default)]
struct State {
    position: Option<Vec<u8>>,
    rows: Journaled,
}

pub(super) struct Names {
    store: Store,
    state: Arc<Mutex<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    pub(super) fn open(store: &Store) -> Arc<Self> {
        let Kept { position, rows } = lock(store).clone();
        let state = State { position, rows: Journaled::from(rows) };
        Arc::new(Self { store: Arc::clone(store), state: Arc::new(Mutex::new(state)) })
    }

    fn snapshot(&self) -> Kept {
        let state = lock(&self.state);
        Kept { position: state.position.clone(), rows: state.rows.rows().clone() }
    }

    /// Term and index of the last entry it has.
    pub(super) fn applied(&self) -> Option<(u64, u64)> {
        // A version, then what was applied; behind that it says who the members are, and how it came by what it has.
        let position = lock(&self.state).position.clone()?;
        let (applied, _) = postcard::take_from_bytes(position.get(1..)?).expect("a position begins with an entry");
        applied
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&MemoryRows) -> T) -> T {
        look(lock(&self.state).rows.rows())
    }
}

impl Machine for Names {
    type Command = Request;
    type Reply = Option<Result<Reply, NsError>>;

    fn position(&self) -> Option<Vec<u8>> {
        lock(&self.state).position.clone()
    }

    fn apply(&self, position: &[u8], command: Option<Request>) -> Result<Self::Reply, MachineError> {
        let state = &mut *lock(&self.state);
        state.position = Some(position.to_vec());
        let Some(request) = command else { return Ok(None) };
        let answer = namespace::apply(&mut state.rows, &request)?;
        if answer.is_err() {
            state.rows.roll_back();
        } else {
            state.rows.commit();
        }
        Ok(Some(answer))
    }

    fn flush(&self) -> Result<(), MachineError> {
        *lock(&self.store) = self.snapshot();
        Ok(())
    }

    fn export(&self) -> Result<Box<dyn Export>, MachineError> {
        let Kept { position, rows } = lock(&self.store).clone();
        let position = position.ok_or_else(|| MachineError::new("never flushed"))?;
        let rows: Vec<Piece> = rows.iter().map(|(table, key, value)| (table.0, key.to_vec(), value.to_vec())).collect();
        Ok(Box::new(Copy { position, rows, given: 0 }))
    }

    fn import(&self) -> Result<Box<dyn Import>, MachineError> {
        let (store, state) = (Arc::clone(&self.store), Arc::clone(&self.state));
        Ok(Box::new(Arrival { store, state, rows: MemoryRows::default() }))
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
        let bytes = postcard::to_allocvec(piece).map_err(MachineError::new)?;
        Ok((!piece.is_empty()).then_some(bytes))
    }
}

struct Arrival {
    store: Store,
    state: Arc<Mutex<State>>,
    rows: MemoryRows,
}

impl Import for Arrival {
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError> {
        let piece: Vec<Piece> = postcard::from_bytes(chunk).map_err(MachineError::new)?;
        piece.into_iter().for_each(|(table, key, value)| self.rows.put(Table(table), &key, value));
        Ok(())
    }

    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError> {
        let Self { store, state, rows } = *self;
        *lock(&store) = Kept { position: Some(position.to_vec()), rows: rows.clone() };
        *lock(&state) = State { position: Some(position.to_vec()), rows: Journaled::from(rows) };
        Ok(())
    }
}
