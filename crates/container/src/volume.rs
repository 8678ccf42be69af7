//! A volume: one directory with the replicas of one disk. What its parts share is [`Inner`].

use crate::errno;
use crate::error::{ReplicaError, Result, VolumeError};
use crate::flush::Closer;
use crate::index::Index;
use crate::index_lag::Ahead;
use crate::inner::{Inner, lock};
use crate::layout::Layout;
use crate::open::Phase;
use crate::options::{Durability, Options};
use crate::reader::Reader;
use crate::record::PACK_LEN_MAX;
use crate::replica::{Identity, ReplicaInfo};
use crate::reserve::Reserve;
use crate::room::Room;
use crate::version::{VolumeIdentity, check_unused};
use crate::writer::Writer;
use kv::KvError;
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::{BlockId, ContainerId, FileId, Generation, NodeId, ReplicaState};

/// Bytes of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    pub capacity: u64,
    /// In replicas of this volume, checksums included.
    pub used: u64,
    pub remaining: u64,
    pub replica_count: u64,
}

/// Clones are the same volume. The last one gone closes it.
#[derive(Clone, Debug)]
pub struct Volume {
    inner: Arc<Inner>,
    _closer: Arc<Closer>,
}

/// Why a volume was not loaded.
enum Unloaded {
    /// What the index is good for is in the files as well.
    IndexDamaged(String),
    Other(VolumeError),
}

impl From<VolumeError> for Unloaded {
    fn from(error: VolumeError) -> Self {
        Self::Other(error)
    }
}

impl Unloaded {
    fn of_index(layout: &Layout, error: &KvError) -> Self {
        match error {
            KvError::Damaged { .. } | KvError::Unsound { .. } | KvError::Format { .. } | KvError::Lmdb { .. } => {
                Self::IndexDamaged(error.to_string())
            }
            KvError::Io { source, .. } if errno::is_of_disk(source) => Self::IndexDamaged(error.to_string()),
            error => Self::Other(VolumeError::of_index(&layout.index(), error)),
        }
    }

    fn for_good(self, layout: &Layout) -> VolumeError {
        match self {
            Self::IndexDamaged(reason) => VolumeError::Index { dir: layout.index().display().to_string(), reason },
            Self::Other(error) => error,
        }
    }
}

/// One is kept: whoever looks into it wants the last.
fn quarantine_index(layout: &Layout) -> std::io::Result<()> {
    let to = layout.quarantine().join("index");
    std::fs::create_dir_all(layout.quarantine())?;
    match std::fs::remove_dir_all(&to) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::rename(layout.index(), to)
}

fn keep_to_owner(dir: &Path) -> std::io::Result<()> {
    const OWNER_ALONE: u32 = 0o700;
    let mode = std::fs::metadata(dir)?.permissions().mode() & 0o7777;
    if mode & !OWNER_ALONE == 0 { Ok(()) } else { std::fs::set_permissions(dir, Permissions::from_mode(OWNER_ALONE)) }
}

impl Volume {
    /// Opens the volume in `dir`, or makes one there. What a crash left is put in order first.
    pub fn open(dir: &Path, options: Options) -> Result<Self, VolumeError> {
        let failed = |op, path: &Path| {
            let path = path.display().to_string();
            move |source| VolumeError::Io { op, path, source }
        };
        let layout = Layout { dir: dir.to_owned() };
        for dir in [dir, &layout.ahead(), &layout.open(), &layout.containers()] {
            std::fs::create_dir_all(dir).map_err(failed("create", dir))?;
        }
        // Else every user of the machine reads all files there. HDFS: `dfs.datanode.data.dir.perm`.
        keep_to_owner(dir).map_err(failed("restrict to its owner", dir))?;
        let lock = layout.lock();
        let lock_file = io::file::lock(&lock).map_err(|source| match source.kind() {
            ErrorKind::WouldBlock => VolumeError::Locked { dir: dir.display().to_string() },
            _ => failed("lock", &lock)(source),
        })?;
        let identity = Self::identify(&layout, &options)?;
        let options = Options { pack_len_max: options.pack_len_max.min(PACK_LEN_MAX), ..options };
        let lock_file = Arc::new(lock_file);
        let load = || Self::load(layout.clone(), options.clone(), identity.clone(), &lock_file);
        let inner = match load() {
            Err(Unloaded::IndexDamaged(reason)) => {
                // The files say all that it said.
                tracing::error!(
                    dir = %dir.display(), reason,
                    "the index is damaged; it goes to quarantine and is built anew"
                );
                quarantine_index(&layout).map_err(failed("move to quarantine", &layout.index()))?;
                let inner = load().map_err(|error| error.for_good(&layout))?;
                inner.fault_count.fetch_add(1, Ordering::Relaxed);
                inner
            }
            loaded => loaded.map_err(|error| error.for_good(&layout))?,
        };
        let closer = Closer::start(&inner).map_err(failed("start the flusher of", dir))?;
        Ok(Self { inner, _closer: Arc::new(closer) })
    }

    /// Opens what is in the directory, and puts it in order.
    fn load(
        layout: Layout,
        options: Options,
        identity: VolumeIdentity,
        lock_file: &Arc<File>,
    ) -> Result<Arc<Inner>, Unloaded> {
        let index = Index::open(&layout.index()).map_err(|error| Unloaded::of_index(&layout, &error))?;
        let synced = options.durability == Durability::Synced;
        let marks = Ahead::open(layout.ahead(), synced);
        let (ahead, behind) = marks.map_err(|source| VolumeError::Io {
            op: "read",
            path: layout.ahead().display().to_string(),
            source,
        })?;
        let inner = Arc::new(Inner::new(layout, options, index, ahead, identity, Arc::clone(lock_file)));
        match inner.restore(behind) {
            Ok(()) => Ok(inner),
            Err(ReplicaError::Index(error)) => Err(Unloaded::IndexDamaged(error.to_string())),
            Err(error) => Err(VolumeError::from(error).into()),
        }
    }

    fn identify(layout: &Layout, options: &Options) -> Result<VolumeIdentity, VolumeError> {
        if let Some(have) = VolumeIdentity::read(layout)? {
            return match options.node {
                Some(want) if want != have.node => {
                    Err(VolumeError::Foreign { dir: layout.dir.display().to_string(), have: have.node, want })
                }
                _ => have.repair(layout).map(|()| have),
            };
        }
        check_unused(layout)?;
        let node = options.node.unwrap_or_else(|| NodeId(io::random::uuid()));
        let identity = VolumeIdentity::draw(node);
        identity.write(layout)?;
        Ok(identity)
    }

    pub fn identity(&self) -> VolumeIdentity {
        self.inner.identity()
    }

    /// Binds the volume to a cluster's block pool, for ever; a volume of another pool is refused.
    pub fn join_pool(&self, pool: &str) -> Result<(), VolumeError> {
        let layout = &self.inner.layout;
        let mut identity = lock(&self.inner.identity);
        match &identity.pool {
            Some(have) if have == pool => return Ok(()),
            Some(have) => {
                let dir = layout.dir.display().to_string();
                return Err(VolumeError::ForeignPool { dir, have: have.clone(), want: pool.to_owned() });
            }
            None => {}
        }
        if pool.is_empty() || pool.chars().any(char::is_control) {
            let path = layout.version().display().to_string();
            return Err(VolumeError::Identity { path, reason: format!("{pool:?} can not name a block pool") });
        }
        let joined = VolumeIdentity { pool: Some(pool.to_owned()), ..identity.clone() };
        joined.write(layout)?;
        *identity = joined;
        Ok(())
    }

    /// Starts a new replica. One of the same or a newer generation is in the way. One of an older generation is stale:
    /// if it is open it goes now, if it was finalized it goes when the new one is put.
    pub fn create(&self, identity: Identity) -> Result<Writer> {
        self.inner.create(identity, Phase::Open, Room::Newer)
    }

    /// As [`Self::create`], for a copy from another node: nobody reads it, and nothing is left of it, until it was put
    /// or kept. A finalized replica of an older generation is found and read until the copy is put, and was read back.
    pub fn create_copy(&self, identity: Identity) -> Result<Writer> {
        self.inner.create(identity, Phase::Copying, Room::Newer)
    }

    /// As [`Self::create_copy`], for a copy that may also take the place of a damaged replica of the same generation.
    pub fn create_replacement(&self, identity: Identity) -> Result<Writer> {
        self.inner.create(identity, Phase::Copying, Room::Equal)
    }

    pub fn find(&self, block: BlockId) -> Result<Option<ReplicaInfo>> {
        let open = self.inner.find_open(block).map(|open| open.info());
        if open.is_some_and(|info| info.state != ReplicaState::Copying) {
            return Ok(open);
        }
        // A copy counts for nothing until it is put, and what it is to replace is still there.
        let row = self.inner.index.replica(block)?;
        Ok(row.map(|row| row.info(block)).or(open))
    }

    /// Opens a replica that has at least this generation.
    pub fn read(&self, block: BlockId, generation_min: Generation) -> Result<Reader> {
        self.inner.read(block, generation_min)
    }

    /// Removes a replica if its generation is at most this; its space comes back, that of small ones soon. Tells
    /// whether there was one.
    pub fn delete(&self, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        self.inner.delete(block, generation_at_most)
    }

    /// Up to `limit` replicas from `from` on, in the order of their ids: finalized, open and waiting ones.
    pub fn replicas(&self, from: BlockId, limit: usize) -> Result<Vec<ReplicaInfo>> {
        // Open ones first: one that is put meanwhile then shows up as finalized instead of not at all.
        let open: Vec<ReplicaInfo> = lock(&self.inner.open)
            .range(from..)
            .map(|(_, replica)| replica.info())
            .filter(|info| info.state != ReplicaState::Copying)
            .take(limit)
            .collect();
        let rows = self.inner.index.replicas(from, limit)?;
        let mut all: BTreeMap<BlockId, ReplicaInfo> =
            rows.into_iter().map(|(block, row)| (block, row.info(block))).collect();
        all.extend(open.into_iter().map(|info| (info.identity.block, info)));
        Ok(all.into_values().take(limit).collect())
    }

    /// Records which file owns a block and where the block is at home, if the replica's writer did not say. Tells
    /// whether there was such a replica.
    pub fn set_owner(&self, block: BlockId, file: FileId, home: ContainerId) -> Result<bool> {
        self.inner.set_owner(block, file, home)
    }

    /// Reads a replica from end to end against its checksums.
    pub fn verify(&self, block: BlockId) -> Result<u32> {
        self.read(block, Generation(0))?.verify()
    }

    pub fn usage(&self) -> Result<VolumeUsage> {
        let inner = &self.inner;
        let (capacity, remaining) = inner.room(ContainerId(0), Reserve::Whole)?;
        let totals = inner.index.totals()?;
        let open_len: u64 = lock(&inner.open).values().map(|replica| replica.state().len).sum();
        Ok(VolumeUsage { capacity, used: totals.used + open_len, remaining, replica_count: totals.count })
    }

    /// Things that were found when the volume was opened and could not be used: what does not read, or is not what its
    /// name says. The log names each; some are in `quarantine/`.
    pub fn fault_count(&self) -> u64 {
        self.inner.fault_count.load(Ordering::Relaxed)
    }

    /// Why the volume takes no more writes; `None` for a sound one.
    pub fn failure(&self) -> Option<&str> {
        self.inner.health.failure()
    }

    /// True for a volume that takes no more writes only because a sync found its disk full: what it has is still good.
    pub fn is_full(&self) -> bool {
        self.inner.health.is_full()
    }

    /// True for a volume that failed only because its disk has become read-only.
    pub fn is_read_only(&self) -> bool {
        self.inner.health.is_read_only()
    }

    /// Looks whether the directory is there still: a disk that was taken away leaves an empty one, or another one. If
    /// not, the volume has failed.
    pub fn check_directory(&self) -> Result<()> {
        self.inner.check_directory()?;
        self.inner.health.check_sound()
    }

    /// The volume takes no more writes from now on.
    pub fn declare_failed(&self, reason: String) {
        self.inner.health.fail(reason, false);
    }

    /// As [`Self::declare_failed`], and what is there still reads.
    pub fn become_read_only(&self, reason: String) {
        self.inner.health.fail(reason, true);
    }

    /// As [`Self::declare_failed`], after a sync that found no room: what is there still reads, and counts.
    pub fn become_full(&self, reason: String) {
        self.inner.health.stop_full(reason);
    }

    /// Gives back the space of small replicas that were deleted, as much of it as one step may; this happens by itself,
    /// too.
    pub fn compact(&self) {
        self.inner.compact();
    }

    /// Writes what is to be written, and ends the volume's own thread; whoever has a clone may go on to read. Waits for
    /// a disk that does not answer for some seconds only. Happens by itself when the last clone is gone.
    pub fn close(&self) {
        self._closer.close();
    }

    /// Makes the index durable now. Nothing depends on it but the time the next start takes.
    pub fn flush_index(&self) -> Result<()> {
        self.inner.flush_index()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_of_the_machine_cannot_look_into_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        drop(Volume::open(dir.path(), Options::default()).unwrap());
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }
}
