//! A machine that is a list of numbers in a file, which is replaced as a whole, and synced, at each flush.

use raft::{Export, Import, Machine, MachineError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use types::RowsDigest;
use types::rows::Table;

/// Position, and the numbers.
type State = (Vec<u8>, Vec<u64>);

pub(crate) struct List {
    pub(crate) path: PathBuf,
    state: Arc<Mutex<State>>,
    restored: Option<Vec<u8>>,
    pub(crate) flush_fails: AtomicBool,
    /// From now on it makes something else of what it is given than the others do.
    pub(crate) is_wrong: AtomicBool,
    pub(crate) level_max: AtomicU8,
}

/// Numbers that stand for commands the machine cannot apply.
pub(crate) const FAILS: u64 = u64::MAX;
pub(crate) const PANICS: u64 = u64::MAX - 1;
/// From then on the list has level 2.
pub(crate) const RAISES: u64 = u64::MAX - 2;
/// A command of level 2.
pub(crate) const NEWER: u64 = u64::MAX - 3;

impl List {
    pub(crate) fn open(dir: &Path) -> Arc<Self> {
        let path = dir.join("list");
        let (position, list) = read(&path).map_or((None, Vec::new()), |(position, list)| (Some(position), list));
        let state = Arc::new(Mutex::new((position.clone().unwrap_or_default(), list)));
        Arc::new(Self {
            path,
            restored: position,
            state,
            flush_fails: AtomicBool::new(false),
            is_wrong: AtomicBool::new(false),
            level_max: AtomicU8::new(1),
        })
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.state.lock().unwrap().1.clone()
    }
}

impl Machine for List {
    /// The number, and ballast.
    type Command = (u64, String);
    type Reply = usize;

    fn position(&self) -> Option<Vec<u8>> {
        self.restored.clone()
    }

    fn apply(&self, position: &[u8], command: Option<(u64, String)>) -> Result<usize, MachineError> {
        let number = command.map(|(number, _)| number);
        if number == Some(FAILS) {
            return Err(MachineError::new("told to fail"));
        }
        assert!(number != Some(PANICS), "told to panic");
        let mut state = self.state.lock().unwrap();
        state.0 = position.to_vec();
        let wrong = u64::from(self.is_wrong.load(Ordering::Relaxed));
        state.1.extend(number.map(|number| number + wrong));
        Ok(state.1.len())
    }

    fn digest(&self) -> Option<RowsDigest> {
        let numbers: Vec<_> = self.numbers().iter().map(|number| number.to_be_bytes()).collect();
        Some(RowsDigest::default().after(numbers.iter().map(|number| (Table(1), &number[..], None))))
    }

    fn level_max(&self) -> u8 {
        self.level_max.load(Ordering::Relaxed)
    }

    fn level(&self) -> u8 {
        1 + u8::from(self.state.lock().unwrap().1.contains(&RAISES))
    }

    fn level_of(command: &(u64, String)) -> u8 {
        1 + u8::from(command.0 == NEWER)
    }

    fn flush(&self) -> Result<(), MachineError> {
        if self.flush_fails.load(Ordering::Relaxed) {
            return Err(MachineError::new("the disk is full"));
        }
        let state = self.state.lock().unwrap().clone();
        write(&self.path, &state);
        Ok(())
    }

    fn export(&self) -> Result<Box<dyn Export>, MachineError> {
        let (position, list) = read(&self.path).ok_or_else(|| MachineError::new("never flushed"))?;
        Ok(Box::new(Copy { position, list, given: 0 }))
    }

    fn import(&self) -> Result<Box<dyn Import>, MachineError> {
        Ok(Box::new(Arrival { path: self.path.clone(), state: Arc::clone(&self.state), list: Vec::new() }))
    }
}

struct Copy {
    position: Vec<u8>,
    list: Vec<u64>,
    given: usize,
}

/// Numbers in a chunk: few, so that there are many chunks.
const CHUNK_COUNT: usize = 10;

impl Export for Copy {
    fn position(&self) -> Result<Vec<u8>, MachineError> {
        Ok(self.position.clone())
    }

    fn chunk(&mut self, _len_max: usize) -> Result<Option<Vec<u8>>, MachineError> {
        let rest = &self.list[self.given..];
        let chunk: Vec<u8> = rest.iter().take(CHUNK_COUNT).flat_map(|number| number.to_be_bytes()).collect();
        self.given += chunk.len() / 8;
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

struct Arrival {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    list: Vec<u64>,
}

impl Import for Arrival {
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError> {
        self.list.extend(numbers(chunk));
        Ok(())
    }

    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError> {
        let state = (position.to_vec(), self.list);
        write(&self.path, &state);
        *self.state.lock().unwrap() = state;
        Ok(())
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|number| u64::from_be_bytes(number.try_into().unwrap()))
}

fn write(path: &Path, (position, numbers): &State) {
    let mut bytes = vec![position.len() as u8];
    bytes.extend_from_slice(position);
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    io::file::sync_all(&std::fs::File::open(&new).unwrap()).unwrap();
    std::fs::rename(new, path).unwrap();
    io::file::sync_dir(path.parent().unwrap()).unwrap();
}

fn read(path: &Path) -> Option<State> {
    let bytes = std::fs::read(path).ok()?;
    let len = bytes[0] as usize;
    Some((bytes[1..1 + len].to_vec(), numbers(&bytes[1 + len..]).collect()))
}
