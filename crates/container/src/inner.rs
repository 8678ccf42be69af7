//! What the parts of an open volume share. Each part is a file with methods of [`Inner`]: how a replica is put, found,
//! deleted.
//!
//! Locks, in the order they may be taken: a block's stripe (who creates, reopens, recovers, deletes it) → the replica's
//! disk lock (who writes its files) → the index's change → a pack's tail. The maps and a replica's state are held for a
//! moment only and never while another lock is waited for. Writers take no stripe, so a slow put holds up only its own
//! block.

use crate::directories::Directories;
use crate::error::{ReplicaError, Result, VolumeError};
use crate::group_sync::GroupSync;
use crate::health::Health;
use crate::index::Index;
use crate::index_lag::Ahead;
use crate::layout::Layout;
use crate::meters::VolumeMeters;
use crate::open::OpenReplica;
use crate::options::Options;
use crate::pack::Pack;
use crate::slots::Slots;
use crate::version::{Salt, VolumeIdentity};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use types::{BlockId, ContainerId, Generation};

#[derive(Debug)]
pub(crate) struct Inner {
    pub layout: Layout,
    pub options: Options,
    pub index: Index,
    pub ahead: Ahead,
    pub slots: Arc<Slots>,
    pub open: Mutex<BTreeMap<BlockId, Arc<OpenReplica>>>,
    pub packs: Mutex<HashMap<ContainerId, Arc<Pack>>>,
    /// Containers whose directories are there for sure, with the directory syncs that several puts share.
    pub shelves: Mutex<HashMap<ContainerId, Arc<GroupSync>>>,
    pub directories: Directories,
    /// Blocks that a recovery has taken, and under which generation.
    pub recovering: Mutex<HashMap<BlockId, Generation>>,
    pub identity: Mutex<VolumeIdentity>,
    stripes: [Mutex<()>; STRIPE_COUNT],
    /// The last replica with files of its own had to be on disk when it was put, so the next ones' bytes go there
    /// early: hdfs-native asks for that at the end of every block, and would wait for all of it then.
    pub syncs_ends: AtomicBool,
    /// Things that the start found and could not use.
    pub fault_count: AtomicU64,
    pub health: Health,
    pub meters: VolumeMeters,
    pub wake: Wake,
    /// Locked for as long as the volume is open.
    _lock: Arc<File>,
}

/// Tells the flushing thread to stop.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    pub closing: Mutex<bool>,
    pub told: Condvar,
}

/// Blocks that share a lock. Enough that strangers rarely meet.
const STRIPE_COUNT: usize = 64;

impl Inner {
    pub(crate) fn new(
        layout: Layout,
        options: Options,
        index: Index,
        ahead: Ahead,
        identity: VolumeIdentity,
        lock_file: Arc<File>,
    ) -> Self {
        let slots = Arc::new(Slots::new(layout.open(), &options));
        let health = Health::new(layout.dir.clone());
        let meters = options.meters.of(&layout.dir);
        Self {
            slots,
            layout,
            options,
            index,
            ahead,
            open: Mutex::default(),
            packs: Mutex::default(),
            shelves: Mutex::default(),
            directories: Directories::default(),
            recovering: Mutex::default(),
            identity: Mutex::new(identity),
            stripes: [const { Mutex::new(()) }; STRIPE_COUNT],
            syncs_ends: AtomicBool::new(false),
            fault_count: AtomicU64::new(0),
            health,
            meters,
            wake: Wake::default(),
            _lock: lock_file,
        }
    }

    pub(crate) fn identity(&self) -> VolumeIdentity {
        lock(&self.identity).clone()
    }

    pub(crate) fn salt(&self) -> Salt {
        lock(&self.identity).salt
    }

    pub(crate) fn check_directory(&self) -> Result<()> {
        let reason = match VolumeIdentity::read_from_disk(&self.layout) {
            Ok(Some(there)) if there.volume == self.identity().volume => return Ok(()),
            Ok(Some(_)) => "another volume is in its place".to_owned(),
            Ok(None) => "its directory is empty, or gone".to_owned(),
            Err(VolumeError::Io { source, .. }) if io::limit::is_reached(&source) => return Ok(()),
            Err(error) => error.to_string(),
        };
        self.health.fail(reason.clone(), false);
        Err(ReplicaError::VolumeFailed { reason })
    }

    /// Passes an outcome on once the volume's health has taken note of it.
    pub(crate) fn note<T>(&self, outcome: Result<T>) -> Result<T> {
        self.health.note(&outcome);
        self.meters.note(&outcome);
        outcome
    }

    pub(crate) fn stripe(&self, block: BlockId) -> MutexGuard<'_, ()> {
        // Neighbours are written at the same time: spread them by their low bits.
        lock(&self.stripes[block.0 as usize % STRIPE_COUNT])
    }

    /// The stripes of several blocks. In the order of their numbers, so that two who want several do not wait for each
    /// other.
    pub(crate) fn stripes(&self, blocks: impl Iterator<Item = BlockId>) -> Vec<MutexGuard<'_, ()>> {
        let numbers: BTreeSet<usize> = blocks.map(|block| block.0 as usize % STRIPE_COUNT).collect();
        numbers.into_iter().map(|number| lock(&self.stripes[number])).collect()
    }

    pub(crate) fn find_open(&self, block: BlockId) -> Option<Arc<OpenReplica>> {
        lock(&self.open).get(&block).filter(|replica| !replica.is_gone()).cloned()
    }
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What our mutexes hold is changed in single steps, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
