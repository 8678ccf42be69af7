//! The state machine behind the Raft log: commands come in order, rows change in the store.
//!
//! Promise: the position in the log goes into the same change as what the entry did, so after a crash the store says exactly
//! where the log must go on. A refused request changes nothing but the position.

use crate::command::{Command, Founding, Reply};
use blocks::Cluster;
use kv::Store;
use raft::MachineError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::rows::{Rows, RowsError, RowsMut, Table};

/// The applied position in the log, under the empty key.
const POSITION: Table = Table(32);
/// What the store was founded with, under the empty key: a version byte and a postcard record.
const FOUNDING: Table = Table(33);
const FOUNDING_VERSION: u8 = 1;

#[derive(Debug)]
pub(crate) struct Machine {
    store: Store,
    /// Where the rows of another member are kept until all are there.
    incoming: PathBuf,
    /// The leader's, which follows the block side's commands. `None` while nobody leads here.
    cluster: Mutex<Option<Picture>>,
}

/// The picture of the block side. Whoever leads has one of his own.
pub(crate) type Picture = Arc<Mutex<Cluster>>;

impl Machine {
    /// Refuses a store whose rows cannot be read: taken for a new one it would lose what it has.
    pub(crate) fn open(store: Store, incoming: PathBuf) -> Result<Self, RowsError> {
        store.view().get(POSITION, &[])?;
        // Left by a process that was killed while it received them.
        let _there_is_none = std::fs::remove_file(&incoming);
        Ok(Self { store, incoming, cluster: Mutex::new(None) })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Takes the picture of the block side as it is now, and lets it follow every later command.
    pub(crate) fn watch_blocks(&self, lessee: u64) -> Result<Picture, RowsError> {
        // The lock is held while the rows are read, so no command comes between them and the picture.
        let mut cluster = self.lock();
        let picture = Arc::new(Mutex::new(Cluster::load(&self.store.view(), lessee)?));
        *cluster = Some(Arc::clone(&picture));
        Ok(picture)
    }

    /// Lets the picture stand still: nobody leads here any more.
    pub(crate) fn unwatch_blocks(&self) {
        *self.lock() = None;
    }

    pub(crate) fn founding(&self) -> Result<Option<Founding>, RowsError> {
        read_founding(&self.store.view())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Picture>> {
        // A panic leaves counts of load at worst; the rows are not in here.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, position: &[u8], command: Option<Command>) -> Result<Reply, RowsError> {
        let stage = || {
            let mut change = self.store.change();
            change.put(POSITION, &[], position.to_vec());
            change
        };
        let mut change = stage();
        let reply = match command {
            None => Reply::Nothing,
            Some(Command::Namespace(request)) => {
                let answer = namespace::apply_with(&mut change, &request, &blocks::has_container)?;
                if answer.is_err() {
                    drop(change);
                    change = stage();
                }
                Reply::Namespace(answer)
            }
            Some(Command::Blocks(command)) => {
                let cluster = self.lock();
                let answer = blocks::apply_with(&mut change, &command, &namespace::read::is_empty)?;
                change.commit();
                if let Some(cluster) = cluster.as_ref() {
                    cluster.lock().unwrap_or_else(PoisonError::into_inner).on_applied(&command, &answer);
                }
                return Ok(Reply::Blocks(answer));
            }
            Some(Command::Found(founding)) => {
                if read_founding(&change)?.is_none() {
                    let bytes = postcard::to_extend(&founding, vec![FOUNDING_VERSION]);
                    change.put(FOUNDING, &[], bytes.expect("a founding is plain data"));
                }
                Reply::Founded
            }
        };
        change.commit();
        Ok(reply)
    }
}

fn read_founding(rows: &dyn Rows) -> Result<Option<Founding>, RowsError> {
    let Some(bytes) = rows.get(FOUNDING, &[])? else { return Ok(None) };
    let damaged = |reason: String| RowsError { op: "reading what the store was founded with", reason };
    match bytes.split_first() {
        Some((&FOUNDING_VERSION, record)) => {
            postcard::from_bytes(record).map(Some).map_err(|error| damaged(error.to_string()))
        }
        version => Err(damaged(format!("version {:?}; a newer program wrote it", version.map(|(version, _)| version)))),
    }
}

impl raft::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn position(&self) -> Option<Vec<u8>> {
        self.store.view().get(POSITION, &[]).ok().flatten()
    }

    fn apply(&self, position: &[u8], command: Option<Command>) -> Result<Reply, MachineError> {
        self.run(position, command).map_err(|error| MachineError(error.to_string()))
    }

    fn flush(&self) -> Result<(), MachineError> {
        self.store.flush().map_err(|error| MachineError(error.to_string()))
    }

    fn is_large(&self) -> bool {
        self.store.is_large()
    }

    fn export(&self) -> Result<Box<dyn raft::Export>, MachineError> {
        let export = self.store.export().map_err(MachineError::new)?;
        Ok(Box::new(Outgoing { export }))
    }

    fn import(&self) -> Result<Box<dyn raft::Import>, MachineError> {
        let import = kv::Import::begin(&self.incoming).map_err(MachineError::new)?;
        Ok(Box::new(Incoming { store: self.store.clone(), import }))
    }
}

/// All rows, on their way to another member.
struct Outgoing {
    export: kv::Export,
}

impl raft::Export for Outgoing {
    fn position(&self) -> Result<Vec<u8>, MachineError> {
        let position = self.export.get(POSITION, &[]).map_err(MachineError::new)?;
        position.ok_or_else(|| MachineError::new("the store has no position"))
    }

    fn chunk(&mut self, len_max: usize) -> Result<Option<Vec<u8>>, MachineError> {
        self.export.chunk(len_max).map_err(MachineError::new)
    }
}

/// All rows of another member.
struct Incoming {
    store: Store,
    import: kv::Import,
}

impl raft::Import for Incoming {
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError> {
        self.import.take(chunk).map_err(MachineError::new)
    }

    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError> {
        let Self { store, import } = *self;
        store.replace(import, &[(POSITION, &[], position)]).map_err(MachineError::new)
    }
}
