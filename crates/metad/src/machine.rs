//! The state machine behind the Raft log: commands are applied in order, and rows of the store change.
//!
//! Promise: the position in the log is part of the same change as the entry's effect. So after a crash the store says
//! exactly where the log must continue. A request that is refused, or that panics ([`crate::faults`]), changes only the
//! position.

use crate::command::{Command, Founding, LEVEL, Reply};
use crate::faults::{self, Faults};
use crate::pages::Pages;
use crate::residency::Residency;
use kv::Store;
use namespace::Effects;
use namespace::tables::{ENTRY, split_entry};
use raft::MachineError;
use security::joining;
use security::rings::{self, RingError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use types::RowsDigest;
use types::encoding;
use types::rows::{Rows, RowsError, RowsMut, Table};

/// The applied position in the log, under the empty key.
pub(crate) const POSITION: Table = Table(32);
/// What the store was founded with, under the empty key: a version byte and a record.
const FOUNDING: Table = Table(33);
/// The digest of all changes so far, under the empty key: a big-endian u64.
const DIGEST: Table = Table(34);
/// The level of forms that may be written, under the empty key: one byte. No row: the first.
const LEVELS: Table = Table(35);
const FOUNDING_VERSION: u8 = 4;

#[derive(Debug)]
pub(crate) struct Machine {
    store: Store,
    /// Where the rows of another member are kept until all are there.
    incoming: PathBuf,
    /// The leader on this server, which follows what is applied.
    leader: Mutex<Option<Weak<dyn Follower>>>,
    /// Content of the row [`DIGEST`], so that it is not read for each entry.
    digest: Arc<Mutex<RowsDigest>>,
    /// Content of the row [`LEVELS`].
    level: Arc<AtomicU8>,
    /// Entries that changed nothing, as they panicked.
    pub(crate) faults: Faults,
    pub(crate) residency: Residency,
    /// What listings were answered with lately.
    pub(crate) pages: Arc<Pages>,
}

/// The leader, which gets the effects of each entry at once, whether or not a caller waits for the reply.
///
/// It is called between two entries, so its time delays all changes.
pub(crate) trait Follower: std::fmt::Debug + Send + Sync {
    fn on_blocks(&self, command: &blocks::Command, answer: &Result<blocks::Reply, blocks::BlocksError>);
    fn on_rings(&self, command: &rings::Command, answer: &Result<(), RingError>);
    /// It panicked over one of these, and does not know the rows' present content.
    fn on_blocks_lost(&self);
    fn on_effects(&self, effects: &Effects);
    /// It panicked over some: their effects are to be looked for in the rows.
    fn on_effects_lost(&self);
}

/// What applying an entry came to.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) reply: Reply,
    pub(crate) effects: Effects,
}

impl From<Reply> for Applied {
    fn from(reply: Reply) -> Self {
        Self { reply, effects: Effects::default() }
    }
}

impl Machine {
    /// Refuses a store whose rows cannot be read: taken for a new one it would lose what it has.
    pub(crate) fn open(store: Store, incoming: PathBuf) -> Result<Self, RowsError> {
        store.view().get(POSITION, &[])?;
        let digest = Arc::new(Mutex::new(read_digest(&store.view())?));
        let level = Arc::new(AtomicU8::new(read_level(&store.view())?));
        // Left by a process that was killed while it received them.
        let _there_is_none = std::fs::remove_file(&incoming);
        Ok(Self {
            store,
            incoming,
            leader: Mutex::new(None),
            digest,
            level,
            faults: Faults::default(),
            residency: Residency::default(),
            pages: Arc::default(),
        })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a leader of the present rows, and lets it follow every later entry until it is dropped, or
    /// [`Machine::unfollow`] is called.
    pub(crate) fn follow<F: Follower + 'static>(
        &self,
        begin: impl FnOnce() -> Result<F, RowsError>,
    ) -> Result<Arc<F>, RowsError> {
        // The lock is held while the rows are read, so no entry comes between them and what the leader makes of them.
        let mut leader = self.lock();
        let follower = Arc::new(begin()?);
        let weak = Arc::downgrade(&follower);
        *leader = Some(weak);
        Ok(follower)
    }

    /// No leader is on this server any more.
    pub(crate) fn unfollow(&self) {
        *self.lock() = None;
    }

    pub(crate) fn founding(&self) -> Result<Option<Founding>, RowsError> {
        read_founding(&self.store.view())
    }

    /// Whether clients have made anything.
    pub(crate) fn holds_files(&self) -> Result<bool, RowsError> {
        let rows = self.store.view();
        Ok(read_founding(&rows)?.is_some() && namespace::has_entries(&rows)?)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Weak<dyn Follower>>> {
        // A single value, which no panic leaves half changed.
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies one entry by `apply`, which is the function of that name but for tests.
    pub(crate) fn run(&self, position: &[u8], command: Option<&Command>, apply: Apply) -> Result<Reply, RowsError> {
        let stage = || {
            let mut change = self.store.change();
            change.put(POSITION, &[], position.to_vec());
            change
        };
        let mut change = stage();
        let Some(command) = command else {
            self.commit(change);
            return Ok(Reply::Nothing);
        };
        // No leader begins between the change of the rows and the hand-over of its effects.
        let leader = self.lock();
        let Applied { reply, effects } = match faults::guard(|| apply(&mut change, command)) {
            Ok(applied) => applied?,
            Err(panic) => self.faults.answer(raft::entry_index(position), command, &panic).into(),
        };
        debug_assert!(reply.keeps_rows() || effects.is_empty(), "what was refused has no effects: {effects:?}");
        if !reply.keeps_rows() {
            drop(change);
            change = stage();
        }
        self.commit(change);
        if let (Command::Raise { .. }, Reply::Raised) = (command, &reply) {
            let (level, before) = (read_level(&self.store.view())?, self.level.load(Ordering::Relaxed));
            assert!(level >= before, "the level of what is written fell from {before} to {level}");
            self.level.store(level, Ordering::Relaxed);
        }
        if let Some(leader) = leader.as_ref().and_then(Weak::upgrade) {
            if let (Command::Blocks(change), Reply::Blocks(answer)) = (command, &reply)
                && let Err(panic) = faults::guard(|| leader.on_blocks(change, answer))
            {
                faults::follower_failed(raft::entry_index(position), command, &panic);
                leader.on_blocks_lost();
            }
            if let (Command::Rings(change), Reply::Rings(answer)) = (command, &reply)
                && let Err(panic) = faults::guard(|| leader.on_rings(change, answer))
            {
                faults::follower_failed(raft::entry_index(position), command, &panic);
                leader.on_blocks_lost();
            }
            if !effects.is_empty()
                && let Err(panic) = faults::guard(|| leader.on_effects(&effects))
            {
                faults::follower_failed(raft::entry_index(position), command, &panic);
                leader.on_effects_lost();
            }
        }
        Ok(reply)
    }

    /// The position is no part of the digest: it shows how a member got its rows, which differs.
    fn commit(&self, mut change: kv::Change<'_>) {
        debug_assert!(change.staged().all(|(table, ..)| table != DIGEST), "no command writes the digest of the rows");
        let mut digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        *digest = digest.after(change.staged().filter(|(table, ..)| *table != POSITION));
        change.put(DIGEST, &[], digest.0.to_be_bytes().to_vec());
        let entries = change.staged().filter(|(table, ..)| *table == ENTRY);
        self.pages.change(change.number(), entries.filter_map(|(_, key, _)| split_entry(key)));
        change.commit();
    }
}

/// What a command does to the rows, and what it comes to.
pub(crate) type Apply = fn(&mut dyn RowsMut, &Command) -> Result<Applied, RowsError>;

pub(crate) fn apply(rows: &mut dyn RowsMut, command: &Command) -> Result<Applied, RowsError> {
    Ok(match command {
        Command::Namespace(request) => match namespace::apply_with(rows, request, &blocks::has_container)? {
            Ok(namespace::Applied { reply, effects }) => Applied { reply: Reply::Namespace(Ok(reply)), effects },
            Err(refused) => Reply::Namespace(Err(refused)).into(),
        },
        Command::Blocks(command) => {
            Reply::Blocks(blocks::apply_with(rows, command, &namespace::read::is_empty)?).into()
        }
        Command::Rings(command) => Reply::Rings(rings::apply(rows, command)?).into(),
        Command::Joining(command) => Reply::Joining(joining::apply(rows, command)?).into(),
        Command::Found(founding) => {
            if read_founding(rows)?.is_none() {
                rows.put(FOUNDING, &[], encoding::encode(founding, vec![FOUNDING_VERSION]));
            }
            Reply::Founded.into()
        }
        Command::Raise { level } if *level > LEVEL => {
            let reason = format!("to {level}, and this program knows {LEVEL}: start the newer program on this server");
            return Err(RowsError { op: "raising the level of what is written", reason });
        }
        Command::Raise { level } => {
            // It never falls: what was written since would not be understood.
            let level = (*level).max(read_level(rows)?);
            rows.put(LEVELS, &[], vec![level]);
            Reply::Raised.into()
        }
    })
}

fn read_digest(rows: &dyn Rows) -> Result<RowsDigest, RowsError> {
    let Some(bytes) = rows.get(DIGEST, &[])? else { return Ok(RowsDigest::default()) };
    let number = <[u8; 8]>::try_from(&bytes[..]).map(u64::from_be_bytes);
    let wrong = |_| RowsError { op: "reading the digest of the rows", reason: format!("{} bytes, not 8", bytes.len()) };
    number.map(RowsDigest).map_err(wrong)
}

fn read_level(rows: &dyn Rows) -> Result<u8, RowsError> {
    match rows.get(LEVELS, &[])?.as_deref() {
        None => Ok(raft::LEVEL_FIRST),
        Some(&[level]) => Ok(level),
        Some(bytes) => {
            let reason = format!("{} bytes, not 1", bytes.len());
            Err(RowsError { op: "reading the level of what is written", reason })
        }
    }
}

/// Whether a new server can go on with these rows: a store was founded in them, in forms that this program knows.
pub(crate) fn may_begin_anew(rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(read_level(rows)? <= LEVEL && read_founding(rows)?.is_some())
}

fn read_founding(rows: &dyn Rows) -> Result<Option<Founding>, RowsError> {
    let Some(bytes) = rows.get(FOUNDING, &[])? else { return Ok(None) };
    let damaged = |reason: String| RowsError { op: "reading what the store was founded with", reason };
    match bytes.split_first() {
        Some((&FOUNDING_VERSION, record)) => {
            encoding::decode(record).map(Some).map_err(|error| damaged(error.to_string()))
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
        let applied = self.residency.watch_some(|| self.run(position, command.as_ref(), apply));
        applied.map_err(|error| MachineError(error.to_string()))
    }

    fn may_wait(&self) -> bool {
        // A leader that begins holds that lock while all rows are read.
        self.residency.is_cold() || self.store.must_soon_flush() || self.leader.try_lock().is_err()
    }

    fn digest(&self) -> Option<RowsDigest> {
        Some(*self.digest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn level_max(&self) -> u8 {
        LEVEL
    }

    fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    fn level_of(command: &Command) -> u8 {
        command.level()
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
        Ok(Box::new(Incoming {
            store: self.store.clone(),
            import,
            digest: Arc::clone(&self.digest),
            level: Arc::clone(&self.level),
            pages: Arc::clone(&self.pages),
        }))
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
    digest: Arc<Mutex<RowsDigest>>,
    level: Arc<AtomicU8>,
    pages: Arc<Pages>,
}

impl raft::Import for Incoming {
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError> {
        self.import.take(chunk).map_err(MachineError::new)
    }

    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError> {
        let Self { store, import, digest, level, pages } = *self;
        pages.change_all(u64::MAX);
        let replaced = store.replace(import, &[(POSITION, &[], position)]).map_err(MachineError::new);
        pages.change_all(store.view().commits());
        replaced?;
        *digest.lock().unwrap_or_else(PoisonError::into_inner) = read_digest(&store.view())?;
        level.store(read_level(&store.view())?, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::Machine as _;
    use types::Millis;

    fn machine(dir: &std::path::Path) -> Machine {
        let store = Store::open(&dir.join("store"), kv::Options::default()).unwrap();
        Machine::open(store, dir.join("incoming")).unwrap()
    }

    fn request(now: u64, op: impl Into<namespace::Op>) -> Command {
        let caller = namespace::Caller::system();
        Command::Namespace(namespace::Request { now: Millis(now), caller, retry: None, op: op.into() })
    }

    fn format(now: u64) -> Command {
        request(now, namespace::Format { owner: "root".into(), group: "supergroup".into() })
    }

    /// Members that applied the same have the same digest, however they came by it; one that made something else of one
    /// entry never has the same again.
    #[test]
    fn the_digest_tells_members_apart() {
        let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let [one, two, wrong] = dirs.each_ref().map(|dir| machine(dir.path()));
        for (at, member) in [&one, &two, &wrong].into_iter().enumerate() {
            // Where a member stands says also how it came there, which differs and does not count.
            member.apply(&[at as u8], Some(format(7))).unwrap();
            member.apply(b"2", None).unwrap();
        }
        assert_eq!(one.digest(), two.digest());
        // The same entry, of which one makes something else.
        one.apply(b"3", Some(format(8))).unwrap();
        two.apply(b"3", Some(format(8))).unwrap();
        wrong.apply(b"3", Some(request(9, namespace::Reserve { count: 5 }))).unwrap();
        assert_eq!(one.digest(), two.digest());
        assert_ne!(one.digest(), wrong.digest());
        for member in [&one, &wrong] {
            member.apply(b"4", None).unwrap();
        }
        assert_ne!(one.digest(), wrong.digest());
        two.apply(b"4", None).unwrap();

        // A copy of the state brings it along, and a restart finds it.
        two.flush().unwrap();
        let mut export = two.export().unwrap();
        let mut import = wrong.import().unwrap();
        while let Some(chunk) = export.chunk(1 << 20).unwrap() {
            import.take(&chunk).unwrap();
        }
        import.install(b"4").unwrap();
        assert_eq!(one.digest(), wrong.digest());
        one.flush().unwrap();
        let before = one.digest();
        drop(one);
        assert_eq!(machine(dirs[0].path()).digest(), before);
    }

    /// What newer programs may have written by then is not understood here.
    #[test]
    fn a_level_that_is_not_known_is_not_applied() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        machine.apply(b"1", Some(format(7))).unwrap();
        let rows = machine.digest();
        machine.apply(b"2", Some(Command::Raise { level: LEVEL })).unwrap();
        assert_eq!(machine.level(), LEVEL);
        assert_ne!(machine.digest(), rows);
        let error = machine.apply(b"3", Some(Command::Raise { level: LEVEL + 1 })).unwrap_err();
        assert!(error.to_string().contains("start the newer program"), "{error}");
        assert_eq!((machine.level(), machine.position()), (LEVEL, Some(b"2".to_vec())));
    }
}
