//! A model of a datanode's volume: the states, refusals and crash behaviour of the crate `container`, on a virtual
//! disk.
//!
//! What is modelled: open replicas with one writer and its ticket, fencing, put in both durabilities, packed and filed
//! replicas, reopening, recovery, deletion, and what a start makes of what a crash left. What is not: the index (it
//! follows the files by the crate's own promise), the layout of packs, descriptors.

mod open;
mod put;
mod recovery;
mod restore;
mod writer;

use crate::disk::{Disk, DiskError};
use crate::executor::{Guard, Lock, Sim};
use crate::platter::{Identity, Image, Platter, Stored};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, ReplicaState};

pub(crate) use open::ReopenAsk;
pub(crate) use writer::Writer;

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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) identity: Identity,
    pub(crate) len: usize,
    pub(crate) visible: usize,
    pub(crate) state: ReplicaState,
    pub(crate) has_writer: bool,
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
}

impl Volume {
    /// Puts in order what a crash left, as `container::restore` does.
    pub(crate) fn open(sim: Sim, disk: Disk, platter: Rc<RefCell<Platter>>, synced: bool) -> Self {
        let volume = Self(Rc::new(State {
            sim,
            disk,
            platter,
            synced,
            open: RefCell::default(),
            recovering: RefCell::default(),
            stripes: RefCell::default(),
            failed: Cell::default(),
        }));
        volume.restore();
        volume
    }

    async fn stripe(&self, block: BlockId) -> Guard {
        let lock = self.0.stripes.borrow_mut().entry(block).or_default().clone();
        lock.lock().await
    }

    fn check_health(&self) -> Result<()> {
        if self.0.failed.get() { Err(VolumeError::Failed) } else { Ok(()) }
    }

    fn forgets_sync(&self) -> bool {
        mutation::is(Mutation::PutWithoutSync)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.failed.get()
    }

    fn note<T>(&self, outcome: std::result::Result<T, DiskError>) -> Result<T> {
        outcome.map_err(|error| match error {
            DiskError::Full => VolumeError::Full,
            DiskError::SyncFull if mutation::is(Mutation::TrustFullDisk) => VolumeError::Full,
            DiskError::Sync | DiskError::SyncFull => {
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

    pub(crate) fn used_len(&self) -> usize {
        self.0.platter.borrow().used_len()
    }

    /// Bytes that can still be written.
    pub(crate) fn free_len(&self) -> usize {
        if self.has_failed() || self.0.disk.is_full() {
            return 0;
        }
        self.0.disk.capacity().saturating_sub(self.used_len())
    }

    fn check_room(&self, len: usize) -> Result<()> {
        if len <= self.0.disk.capacity().saturating_sub(self.used_len()) { Ok(()) } else { Err(VolumeError::Full) }
    }

    /// Reads a replica from end to end: whether it matches its checksums.
    pub(crate) async fn verify(&self, block: BlockId) -> Result<bool> {
        // Bytes come with their checksums, as one, for who reads.
        let open = self.find_open(block);
        let _files = match &open {
            Some(replica) => Some(replica.files.lock().await),
            None => None,
        };
        let (_, image) = self.read(block, Generation(0)).await?;
        Ok(image.verifies(image.data.len()))
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

    /// A deliberate fault: a finalized replica goes before its successor has come.
    pub(crate) async fn remove_older(&self, block: BlockId, generation: Generation) {
        let _stripe = self.stripe(block).await;
        if self.shelved(block).is_some_and(|image| image.identity.generation < generation) {
            self.0.platter.borrow_mut().remove_shelved(block);
        }
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
            ReplicaState::WaitingForRecovery | ReplicaState::Copying => return Err(VolumeError::State),
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
