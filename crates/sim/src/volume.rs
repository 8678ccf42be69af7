//! A model of a datanode's volume: the states, refusals and crash behaviour of the crate `container`, on a virtual disk.
//!
//! What is modelled: open replicas with one writer and its ticket, fencing, put in both durabilities, packed and filed replicas,
//! reopening, recovery, deletion, and what a start makes of what a crash left. What is not: the index (it follows the files by
//! the crate's own promise), the layout of packs, descriptors.

use crate::disk::{Disk, DiskError};
use crate::executor::{Guard, Lock, Sim};
use crate::platter::{Identity, Image, Platter, Stage, Stored};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{BlockId, ContainerId, FileId, Generation};

/// Replicas up to this length are packed.
const PACK_LEN_MAX: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeError {
    NotFound,
    Exists,
    Stale,
    Fenced,
    State,
    Length,
    Gap,
    Corrupt,
    Full,
    /// The disk failed, now or before: the volume takes no more writes.
    Failed,
}

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaState {
    Open,
    Finalized,
    WaitingForRecovery,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) identity: Identity,
    pub(crate) len: usize,
    pub(crate) visible: usize,
    pub(crate) state: ReplicaState,
    pub(crate) has_writer: bool,
}

/// What a returning writer knows; see `container::ReopenAsk`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReopenAsk {
    pub(crate) close: bool,
    pub(crate) old: Generation,
    pub(crate) new: Generation,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Waiting { settled: bool },
    Gone,
}

/// A replica that is not finalized, as this process knows it.
struct Opened {
    phase: Cell<Phase>,
    visible: Cell<usize>,
    ticket: Cell<u64>,
    has_writer: Cell<bool>,
    files: Lock,
}

#[derive(Clone)]
pub(crate) struct Volume(Rc<State>);

struct State {
    sim: Sim,
    disk: Disk,
    platter: Rc<RefCell<Platter>>,
    synced: bool,
    open: RefCell<BTreeMap<BlockId, Rc<Opened>>>,
    recovering: RefCell<BTreeMap<BlockId, Generation>>,
    stripes: RefCell<BTreeMap<BlockId, Lock>>,
    failed: Cell<bool>,
    /// A deliberate fault, to see that the checks find it: puts without a sync.
    forgets_sync: bool,
}

pub(crate) struct Writer {
    volume: Volume,
    block: BlockId,
    replica: Rc<Opened>,
    ticket: u64,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.replica.ticket.get() == self.ticket {
            self.replica.has_writer.set(false);
        }
    }
}

impl Volume {
    /// Puts in order what a crash left, as `container::restore` does.
    pub(crate) fn open(sim: Sim, disk: Disk, platter: Rc<RefCell<Platter>>, synced: bool, forgets_sync: bool) -> Self {
        let volume = Self(Rc::new(State {
            sim,
            disk,
            platter,
            synced,
            open: RefCell::default(),
            recovering: RefCell::default(),
            stripes: RefCell::default(),
            failed: Cell::default(),
            forgets_sync,
        }));
        volume.restore();
        volume
    }

    fn restore(&self) {
        let mut platter = self.0.platter.borrow_mut();
        let shelved: Vec<BlockId> = platter.shelf.keys().copied().collect();
        for block in shelved {
            let image = platter.shelf[&block].image();
            let whole = matches!(image.stage, Stage::Finalized { len } if len == image.data.len());
            if !whole {
                // Lost power without a sync: it waits for recovery, unless an open one is there, or nothing vouches for it.
                let mut stored = platter.shelf.remove(&block).expect("listed");
                if stored.image().stage == Stage::Copying || platter.open.contains_key(&block) {
                    continue;
                }
                stored.set_header(stored.image().identity, Stage::Open);
                platter.open.insert(block, stored);
            }
        }
        let open: Vec<BlockId> = platter.open.keys().copied().collect();
        for block in open {
            let image = platter.open[&block].image();
            let (generation, len) = (image.identity.generation, image.data.len());
            let better = platter.shelf.get(&block).is_some_and(|shelved| {
                let shelved = shelved.image();
                (shelved.identity.generation, shelved.data.len()) >= (generation, len)
            });
            if image.stage == Stage::Copying || better {
                platter.open.remove(&block);
                continue;
            }
            match image.stage {
                Stage::Finalized { len } if image.sound_len() == len => {
                    let mut stored = platter.open.remove(&block).expect("listed");
                    stored.cut(len);
                    stored.write_again();
                    if self.0.synced || len > 0 {
                        let written = stored.written();
                        stored.synced(written, true);
                    }
                    platter.shelf.insert(block, stored);
                }
                _ => {
                    let identity = image.identity;
                    platter.open.get_mut(&block).expect("listed").set_header(identity, Stage::Open);
                    let waiting = Rc::new(Opened::new(Phase::Waiting { settled: false }, 0));
                    self.0.open.borrow_mut().insert(block, waiting);
                }
            }
        }
    }

    async fn stripe(&self, block: BlockId) -> Guard {
        let lock = self.0.stripes.borrow_mut().entry(block).or_default().clone();
        lock.lock().await
    }

    fn check_health(&self) -> Result<()> {
        if self.0.failed.get() { Err(VolumeError::Failed) } else { Ok(()) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.failed.get()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.disk.is_full()
    }

    fn note<T>(&self, outcome: std::result::Result<T, DiskError>) -> Result<T> {
        outcome.map_err(|error| match error {
            DiskError::Full => VolumeError::Full,
            DiskError::Sync => {
                self.0.failed.set(true);
                VolumeError::Failed
            }
        })
    }

    fn find_open(&self, block: BlockId) -> Option<Rc<Opened>> {
        self.0.open.borrow().get(&block).cloned()
    }

    fn shelved(&self, block: BlockId) -> Option<Image> {
        self.0.platter.borrow().shelf.get(&block).map(|stored| stored.image().clone())
    }

    fn open_image(&self, block: BlockId) -> Image {
        let platter = self.0.platter.borrow();
        // On its way to the shelf, in a put that is not over.
        let stored = platter.open.get(&block).or_else(|| platter.shelf.get(&block));
        stored.expect("open replicas have files").image().clone()
    }

    fn on_open<T>(&self, block: BlockId, change: impl FnOnce(&mut Stored) -> T) -> T {
        change(self.0.platter.borrow_mut().open.get_mut(&block).expect("open replicas have files"))
    }

    /// Whether some other process state than the blocks says that a recovery holds the block.
    fn check_not_recovering(&self, block: BlockId, new: Generation) -> Result<()> {
        match self.0.recovering.borrow().get(&block) {
            Some(by) if *by >= new => Err(VolumeError::Fenced),
            _ => Ok(()),
        }
    }

    pub(crate) async fn create(&self, identity: Identity) -> Result<Writer> {
        self.check_health()?;
        let block = identity.block;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, identity.generation)?;
        if let Some(open) = self.find_open(block) {
            if self.open_image(block).identity.generation >= identity.generation {
                return Err(VolumeError::Exists);
            }
            open.fence();
            drop(open.files.lock().await);
            if open.phase.get() != Phase::Gone {
                self.discard(block, &open);
            }
        }
        if let Some(shelved) = self.shelved(block) {
            if shelved.identity.generation >= identity.generation {
                return Err(VolumeError::Exists);
            }
            self.0.platter.borrow_mut().remove_shelved(block);
        }
        self.note(self.0.disk.write().await)?;
        self.0.platter.borrow_mut().open.insert(block, Stored::new(identity, Stage::Open));
        self.0.recovering.borrow_mut().remove(&block);
        Ok(self.admit(block, Phase::Open, 0))
    }

    fn admit(&self, block: BlockId, phase: Phase, visible: usize) -> Writer {
        let replica = Rc::new(Opened::new(phase, visible));
        self.0.open.borrow_mut().insert(block, Rc::clone(&replica));
        Writer { volume: self.clone(), block, ticket: replica.admit(), replica }
    }

    fn discard(&self, block: BlockId, replica: &Opened) {
        self.0.platter.borrow_mut().remove_open(block);
        self.0.open.borrow_mut().remove(&block);
        replica.phase.set(Phase::Gone);
    }

    pub(crate) async fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Writer> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, ask.new)?;
        let fits = |generation: Generation| (ask.old..=ask.new).contains(&generation);
        if let Some(replica) = self.find_open(block) {
            if !fits(self.open_image(block).identity.generation) {
                return Err(VolumeError::Stale);
            }
            replica.fence();
            let files = replica.files.lock().await;
            if replica.phase.get() != Phase::Gone {
                self.settle(block, &replica).await?;
                let image = self.open_image(block);
                let kept = ask.kept_len(image.data.len(), replica.visible.get())?;
                if !image.can_cut(kept) {
                    return Err(VolumeError::Corrupt);
                }
                self.note(self.0.disk.write().await)?;
                self.on_open(block, |stored| {
                    stored.cut(kept);
                    stored.set_header(Identity { generation: ask.new, ..image.identity }, Stage::Open);
                });
                replica.visible.set(replica.visible.get().min(kept));
                replica.phase.set(Phase::Open);
                drop(files);
                self.0.recovering.borrow_mut().remove(&block);
                let ticket = replica.admit();
                let writer = Writer { volume: self.clone(), block, ticket, replica };
                writer.sync_if_kept(ask).await?;
                return Ok(writer);
            }
        }
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        if !fits(shelved.identity.generation) {
            return Err(VolumeError::Stale);
        }
        let len = shelved.data.len();
        if ask.kept_len(len, len)? != len {
            return Err(VolumeError::Length);
        }
        self.unfinalize(block, ask.new).await?;
        self.0.recovering.borrow_mut().remove(&block);
        let writer = self.admit(block, Phase::Open, len);
        writer.sync_if_kept(ask).await?;
        Ok(writer)
    }

    /// A finalized replica becomes an open one under another generation.
    async fn unfinalize(&self, block: BlockId, generation: Generation) -> Result<()> {
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        self.0.disk.read().await;
        self.note(self.0.disk.write().await)?;
        let identity = Identity { generation, ..shelved.identity };
        if shelved.data.len() <= PACK_LEN_MAX {
            // The record stays until the replica is put again.
            let mut copy = Stored::new(identity, Stage::Copying);
            copy.write_data(0, &shelved.data);
            copy.write_sums(0, &shelved.sums);
            self.0.platter.borrow_mut().open.insert(block, copy);
            if self.0.synced {
                let written = self.on_open(block, |stored| stored.written());
                self.note(self.0.disk.sync().await)?;
                self.on_open(block, |stored| stored.synced(written, false));
            }
            self.on_open(block, |stored| {
                // If somebody had it synced, that is nowhere but in the record, which goes with the put.
                stored.keep();
                stored.set_header(identity, Stage::Open);
            });
        } else {
            let mut platter = self.0.platter.borrow_mut();
            let mut stored = platter.shelf.remove(&block).ok_or(VolumeError::NotFound)?;
            stored.set_header(identity, Stage::Open);
            platter.open.insert(block, stored);
        }
        Ok(())
    }

    /// What was not on disk before a sync that failed may never come there.
    async fn sync_open(&self, block: BlockId) -> Result<()> {
        let outcome = self.0.disk.sync().await;
        if outcome.is_err() {
            self.on_open(block, Stored::sync_failed);
        }
        self.note(outcome)
    }

    /// Before a header says that they are to be kept: it takes the place of one that vouched for less.
    async fn sync_data(&self, block: BlockId) -> Result<()> {
        let written = self.on_open(block, |stored| stored.written());
        self.sync_open(block).await?;
        self.on_open(block, |stored| stored.synced_data(written));
        Ok(())
    }

    async fn settle(&self, block: BlockId, replica: &Opened) -> Result<()> {
        if replica.phase.get() == (Phase::Waiting { settled: false }) {
            self.0.disk.read().await;
            self.note(self.0.disk.write().await)?;
            let sound = self.open_image(block).sound_len();
            self.on_open(block, |stored| {
                stored.cut(sound);
                stored.write_again();
            });
            replica.phase.set(Phase::Waiting { settled: true });
            replica.visible.set(sound);
        }
        Ok(())
    }

    pub(crate) async fn begin_recovery(&self, block: BlockId, recovery: Generation) -> Result<Info> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_recovery(block, recovery)?;
        if let Some(replica) = self.find_open(block) {
            if self.open_image(block).identity.generation >= recovery {
                return Err(VolumeError::Stale);
            }
            replica.fence();
            let _files = replica.files.lock().await;
            if replica.phase.get() != Phase::Gone {
                self.settle(block, &replica).await?;
                self.0.recovering.borrow_mut().insert(block, recovery);
                return self.find(block).ok_or(VolumeError::NotFound);
            }
        }
        let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
        if shelved.identity.generation >= recovery {
            return Err(VolumeError::Stale);
        }
        self.0.recovering.borrow_mut().insert(block, recovery);
        self.find(block).ok_or(VolumeError::NotFound)
    }

    fn check_recovery(&self, block: BlockId, recovery: Generation) -> Result<()> {
        match self.0.recovering.borrow().get(&block) {
            Some(by) if *by > recovery => Err(VolumeError::Fenced),
            _ => Ok(()),
        }
    }

    pub(crate) async fn finish_recovery(&self, block: BlockId, recovery: Generation, len: usize) -> Result<()> {
        self.check_health()?;
        let _stripe = self.stripe(block).await;
        self.check_recovery(block, recovery)?;
        let mut found = None;
        if let Some(replica) = self.find_open(block) {
            if self.open_image(block).identity.generation > recovery {
                return Err(VolumeError::Stale);
            }
            replica.fence();
            drop(replica.files.lock().await);
            found = Some(replica).filter(|replica| replica.phase.get() != Phase::Gone);
        }
        let replica = match found {
            Some(replica) => replica,
            None => {
                let shelved = self.shelved(block).ok_or(VolumeError::NotFound)?;
                if shelved.identity.generation == recovery && shelved.data.len() == len {
                    self.0.recovering.borrow_mut().remove(&block);
                    return Ok(());
                }
                if shelved.identity.generation >= recovery {
                    return Err(VolumeError::Stale);
                }
                if len > shelved.data.len() {
                    return Err(VolumeError::Length);
                }
                self.unfinalize(block, recovery).await?;
                let replica = Rc::new(Opened::new(Phase::Open, shelved.data.len()));
                self.0.open.borrow_mut().insert(block, Rc::clone(&replica));
                replica
            }
        };
        let _files = replica.files.lock().await;
        self.settle(block, &replica).await?;
        let image = self.open_image(block);
        if len > image.data.len() {
            return Err(VolumeError::Length);
        }
        if !image.can_cut(len) {
            return Err(VolumeError::Corrupt);
        }
        self.note(self.0.disk.write().await)?;
        self.on_open(block, |stored| {
            stored.cut(len);
            stored.set_header(Identity { generation: recovery, ..image.identity }, Stage::Open);
        });
        self.put_locked(block, &replica, len).await?;
        self.0.recovering.borrow_mut().remove(&block);
        Ok(())
    }

    /// The caller holds the files.
    async fn put_locked(&self, block: BlockId, replica: &Opened, len: usize) -> Result<()> {
        let image = self.open_image(block);
        if image.data.len() != len {
            return Err(VolumeError::Length);
        }
        // What a writer once had synced is put with a sync.
        let synced = (self.0.synced || image.kept.0 > 0) && !self.0.forgets_sync;
        let finalized = Stage::Finalized { len };
        if len <= PACK_LEN_MAX {
            let mut record = Stored::new(image.identity, finalized);
            record.write_data(0, &image.data);
            record.write_sums(0, &image.sums);
            self.note(self.0.disk.write().await)?;
            if synced {
                self.note(self.0.disk.sync().await)?;
                let written = record.written();
                record.synced(written, true);
            }
            let mut platter = self.0.platter.borrow_mut();
            platter.shelf.insert(block, record);
            platter.remove_open(block);
        } else {
            self.note(self.0.disk.write().await)?;
            if synced {
                self.sync_data(block).await?;
            }
            let written = self.on_open(block, |stored| {
                stored.keep();
                stored.set_header(image.identity, finalized);
                stored.written()
            });
            if synced {
                self.sync_open(block).await?;
                self.on_open(block, |stored| stored.synced(written, false));
            }
            let stored = self.0.platter.borrow_mut().open.remove(&block);
            if let Some(stored) = stored {
                self.0.platter.borrow_mut().shelf.insert(block, stored);
            }
            if synced {
                let outcome = self.note(self.0.disk.sync().await);
                let mut platter = self.0.platter.borrow_mut();
                if let Err(error) = outcome {
                    // As the crate has it, the files stay on the shelf and the replica is still called open.
                    if let Some(mut stored) = platter.shelf.remove(&block) {
                        stored.sync_failed();
                        platter.open.insert(block, stored);
                    }
                    return Err(error);
                }
                if let Some(stored) = platter.shelf.get_mut(&block) {
                    let written = stored.written();
                    stored.synced(written, true);
                }
                platter.forget_removed();
            }
        }
        self.0.open.borrow_mut().remove(&block);
        replica.phase.set(Phase::Gone);
        Ok(())
    }

    /// A copy from another node, whole. `replaces`: a damaged one of the same generation makes room.
    pub(crate) async fn put_copy(&self, identity: Identity, bytes: &[u8], replaces: bool) -> Result<()> {
        self.check_health()?;
        let block = identity.block;
        let _stripe = self.stripe(block).await;
        self.check_not_recovering(block, identity.generation)?;
        let makes_room = |have: Generation| have < identity.generation || replaces && have == identity.generation;
        if let Some(open) = self.find_open(block) {
            if !makes_room(self.open_image(block).identity.generation) || replaces && open.has_writer.get() {
                return Err(VolumeError::Exists);
            }
            open.fence();
            drop(open.files.lock().await);
            if open.phase.get() != Phase::Gone {
                self.discard(block, &open);
            }
        }
        if self.shelved(block).is_some_and(|shelved| !makes_room(shelved.identity.generation)) {
            return Err(VolumeError::Exists);
        }
        self.note(self.0.disk.write().await)?;
        let mut copy = Stored::new(identity, Stage::Finalized { len: bytes.len() });
        copy.write_data(0, bytes);
        copy.write_sums(0, &crate::platter::sums_of(bytes));
        copy.keep();
        // Also where nothing else is synced: those it was copied from may go, and what they had was perhaps synced once.
        if !self.0.forgets_sync {
            self.note(self.0.disk.sync().await)?;
            let written = copy.written();
            copy.synced(written, true);
        }
        let mut platter = self.0.platter.borrow_mut();
        platter.remove_shelved(block);
        platter.shelf.insert(block, copy);
        self.0.recovering.borrow_mut().remove(&block);
        Ok(())
    }

    /// Reads a finalized replica from end to end. `None`: it is not there.
    pub(crate) async fn verify(&self, block: BlockId) -> Option<bool> {
        self.0.disk.read().await;
        if self.find_open(block).is_some() {
            return Some(false);
        }
        self.shelved(block).map(|image| image.verifies(image.data.len()))
    }

    /// Removes a replica of at most this generation. Tells whether there was one.
    pub(crate) async fn delete(&self, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let _stripe = self.stripe(block).await;
        let mut deleted = false;
        if let Some(open) = self.find_open(block) {
            if self.open_image(block).identity.generation > generation_at_most {
                return Ok(false);
            }
            open.fence();
            drop(open.files.lock().await);
            if open.phase.get() != Phase::Gone {
                self.discard(block, &open);
                deleted = true;
            }
        }
        if self.shelved(block).is_some_and(|image| image.identity.generation <= generation_at_most) {
            self.0.platter.borrow_mut().remove_shelved(block);
            deleted = true;
        }
        if deleted {
            self.0.recovering.borrow_mut().remove(&block);
        }
        Ok(deleted)
    }

    pub(crate) async fn set_owner(&self, block: BlockId, file: FileId, home: ContainerId) {
        let _stripe = self.stripe(block).await;
        let owned = |identity: Identity| Identity { file: Some(file), home: Some(home), ..identity };
        let mut platter = self.0.platter.borrow_mut();
        if let Some(stored) = platter.open.get_mut(&block) {
            let image = stored.image();
            let (identity, stage) = (owned(image.identity), image.stage);
            stored.set_header(identity, stage);
        } else if let Some(stored) = platter.shelf.get_mut(&block) {
            let image = stored.image();
            let (identity, stage) = (owned(image.identity), image.stage);
            stored.set_header(identity, stage);
        }
    }

    pub(crate) fn find(&self, block: BlockId) -> Option<Info> {
        let platter = self.0.platter.borrow();
        if let (Some(replica), Some(stored)) = (self.find_open(block), platter.open.get(&block)) {
            let image = stored.image();
            let (state, visible) = match replica.phase.get() {
                Phase::Waiting { .. } => (ReplicaState::WaitingForRecovery, 0),
                _ => (ReplicaState::Open, replica.visible.get().min(image.data.len())),
            };
            let (identity, len) = (image.identity, image.data.len());
            return Some(Info { identity, len, visible, state, has_writer: replica.has_writer.get() });
        }
        let image = platter.shelf.get(&block)?.image();
        let len = image.data.len();
        let (identity, state) = (image.identity, ReplicaState::Finalized);
        Some(Info { identity, len, visible: len, state, has_writer: false })
    }

    pub(crate) fn replicas(&self) -> Vec<Info> {
        let platter = self.0.platter.borrow();
        let mut blocks: Vec<BlockId> = platter.shelf.keys().chain(platter.open.keys()).copied().collect();
        blocks.sort_unstable();
        blocks.dedup();
        drop(platter);
        blocks.into_iter().filter_map(|block| self.find(block)).collect()
    }

    /// The bytes of a replica with at least this generation, as far as readers may see them.
    pub(crate) async fn read(&self, block: BlockId, generation_min: Generation) -> Result<(Info, Image)> {
        self.0.disk.read().await;
        let info = self.find(block).ok_or(VolumeError::NotFound)?;
        if info.identity.generation < generation_min {
            return Err(VolumeError::Stale);
        }
        let image = match info.state {
            ReplicaState::WaitingForRecovery => return Err(VolumeError::State),
            ReplicaState::Open => self.open_image(block),
            ReplicaState::Finalized => self.shelved(block).ok_or(VolumeError::NotFound)?,
        };
        Ok((info, image))
    }
}

impl Opened {
    fn new(phase: Phase, visible: usize) -> Self {
        Self {
            phase: Cell::new(phase),
            visible: Cell::new(visible),
            ticket: Cell::default(),
            has_writer: Cell::default(),
            files: Lock::default(),
        }
    }

    fn admit(&self) -> u64 {
        self.ticket.set(self.ticket.get() + 1);
        self.has_writer.set(true);
        self.ticket.get()
    }

    fn fence(&self) {
        self.ticket.set(self.ticket.get() + 1);
        self.has_writer.set(false);
    }
}

impl ReopenAsk {
    fn kept_len(&self, len: usize, visible: usize) -> Result<usize> {
        let kept = if self.close { len } else { visible.max(self.min) };
        let fits = kept <= len
            && len >= self.min
            && (!self.close || len == self.min)
            && (self.max < self.min || kept <= self.max);
        if fits { Ok(kept) } else { Err(VolumeError::Length) }
    }
}

impl Writer {
    pub(crate) fn received(&self) -> usize {
        self.volume.0.platter.borrow().open.get(&self.block).map_or(0, |stored| stored.image().data.len())
    }

    fn check_ticket(&self) -> Result<()> {
        let mine = self.replica.ticket.get() == self.ticket && self.replica.phase.get() != Phase::Gone;
        if mine { Ok(()) } else { Err(VolumeError::Fenced) }
    }

    /// Packets begin at a chunk's start, or inside our partial last chunk and then end with it or before.
    pub(crate) async fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let volume = &self.volume;
        volume.check_health()?;
        let _files = self.replica.files.lock().await;
        volume.note(volume.0.disk.write().await)?;
        self.check_ticket()?;
        let image = volume.open_image(self.block);
        let len = image.data.len();
        if offset > len {
            return Err(VolumeError::Gap);
        }
        let end = offset + data.len();
        if end <= len {
            return Ok(());
        }
        let chunk = crate::platter::SPEC.chunk_len as usize;
        let boundary = len - len % chunk;
        if !image.data[boundary..].is_empty()
            && image.sums.get(boundary / chunk) != Some(&crate::platter::SPEC.kind.of(&image.data[boundary..]))
        {
            return Err(VolumeError::Corrupt);
        }
        let fresh = &data[len - offset..];
        let mut whole = image.data[boundary..].to_vec();
        whole.extend_from_slice(fresh);
        volume.on_open(self.block, |stored| stored.write_data(len, fresh));
        if volume.0.sim.one_in(64) {
            // A moment in which `kill -9` finds bytes without their checksum.
            volume.0.sim.sleep(std::time::Duration::from_micros(30)).await;
        }
        volume.on_open(self.block, |stored| stored.write_sums(boundary / chunk, &crate::platter::sums_of(&whole)));
        Ok(())
    }

    pub(crate) fn show(&self, len: usize) {
        if self.replica.ticket.get() == self.ticket {
            self.replica.visible.set(self.replica.visible.get().max(len));
        }
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        let volume = &self.volume;
        let _files = self.replica.files.lock().await;
        self.check_ticket()?;
        if volume.0.forgets_sync {
            return Ok(());
        }
        volume.sync_data(self.block).await?;
        let written = volume.on_open(self.block, |stored| {
            stored.keep();
            stored.written()
        });
        volume.sync_open(self.block).await?;
        volume.on_open(self.block, |stored| stored.synced(written, true));
        Ok(())
    }

    /// The new generation must outlive what the old one was synced under.
    async fn sync_if_kept(&self, ask: ReopenAsk) -> Result<()> {
        if ask.close || self.volume.open_image(self.block).kept.0 == 0 { Ok(()) } else { self.sync().await }
    }

    pub(crate) async fn put(&self, len: usize) -> Result<()> {
        self.volume.check_health()?;
        let _files = self.replica.files.lock().await;
        self.check_ticket()?;
        self.volume.put_locked(self.block, &self.replica, len).await
    }
}
