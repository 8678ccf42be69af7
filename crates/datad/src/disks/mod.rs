//! The disks of a node: several volumes that look like one.
//!
//! ```text
//! create, small put ──▶ choose: room per stream ──▶ one volume ──▶ index: block ──▶ disk
//! read, find, reopen, recover, delete ──▶ index ──▶ that volume
//! watch, each second ──▶ gauge (bytes), directory there? ──▶ a disk that failed is out
//! ```
//!
//! Promises:
//! - A block is on one disk. Where a crash in the middle of a move, or a disk that was away, has left two, one counts
//!   and the other goes ([`settle`]).
//! - What has to do with one disk waits for no other. Only a start looks at all of them.
//! - A disk that failed is *out*: nothing is written there, and what it had counts as absent, so that the metadata
//!   server has it copied as it would that of a lost node; whether another one works or not. If it was only made
//!   read-only it still serves readers, and copies that get what it has off it ([`readable`]); and while no other one
//!   works, what it has counts.
//! - A disk that a sync found full takes no writes until the next start, and is not out: what it has counts and serves.
//! - While no disk works, all serve what still reads: checksums tell what does not.
//!
//! A disk that is out comes back with the next start of the node ([`join`]).

mod choose;
mod claims;
mod index;
mod join;
mod known;
mod level;
mod place;
mod places;
mod readable;
mod settle;
mod share;
mod watch;
mod writer;

pub(crate) use join::open;
pub(crate) use level::Leveller;
pub(crate) use settle::run as settle;
pub(crate) use watch::run as watch;
pub(crate) use writer::Writer;

use choose::Picture;
use claims::Claim;
use container::{Reader, ReopenAsk, ReplicaError, ReplicaInfo, Volume, VolumeError};
use io::{Clock, Share, SystemClock};
use places::Places;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{BlockId, ContainerId, FileId, Generation, Millis, NodeId};
use wire::node;
use writer::{Load, Stream};

type Result<T, E = ReplicaError> = std::result::Result<T, E>;

/// A disk that does not say in so long how much room it has is not chosen for new replicas: it hangs, or is very busy.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// One that was opened.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    volume: Volume,
    load: Load,
    gauge: Mutex<Gauge>,
    share: Share,
    hangs: AtomicBool,
    /// Milliseconds since 1970 at which the replica that waits longest was read last; 0: nobody reads them.
    unread_since: AtomicU64,
}

/// What a disk said last.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    usage: container::Usage,
    at: Duration,
}

/// One that was not there at the start, or did not open.
#[derive(Debug)]
struct Lost {
    dir: PathBuf,
    volume: Option<NodeId>,
    reason: String,
}

/// Clones are the same disks.
#[derive(Clone, Debug)]
pub(crate) struct Disks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeId,
    disks: Vec<Disk>,
    lost: Vec<Lost>,
    places: Places,
    /// For work that asks all of them.
    all: Share,
    /// Replicas of blocks that another disk has as well.
    doubles: Mutex<Vec<settle::Double>>,
    turn: AtomicUsize,
    pool: Mutex<Option<String>>,
    clock: SystemClock,
}

impl Disk {
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes of replicas, as far as was heard.
    pub(crate) fn used_len(&self) -> u64 {
        self.gauge().usage.used
    }

    pub(crate) fn set_unread_since(&self, since: Millis) {
        self.unread_since.store(since.0, Ordering::Relaxed);
    }

    /// For how long the replica that waits longest for the background scrub was not read. `None`: there is none, or
    /// nobody reads them.
    fn unread_ms(&self, now: Millis) -> Option<u64> {
        let since = self.unread_since.load(Ordering::Relaxed);
        (since > 0 && self.gauge().usage.replica_count > 0).then(|| now.0.saturating_sub(since))
    }

    fn is_sound(&self) -> bool {
        self.volume.failure().is_none()
    }

    /// What is there is as good as ever, whether it takes more or not.
    fn keeps(&self) -> bool {
        self.is_sound() || self.volume.is_full()
    }

    fn gauge(&self) -> Gauge {
        *self.gauge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the disk how it is. Waits for it.
    fn look(&self, clock: &SystemClock) -> Result<()> {
        self.volume.check_directory()?;
        let usage = self.volume.usage()?;
        *self.gauge.lock().unwrap_or_else(PoisonError::into_inner) = Gauge { usage, at: clock.monotonic() };
        Ok(())
    }
}

impl Disks {
    pub(crate) fn node_id(&self) -> NodeId {
        self.inner.node
    }

    /// What clients are shown as the storage of this node's replicas: it stays the same whichever disk fails.
    pub(crate) fn storage_id(&self) -> NodeId {
        match &self.inner.disks[..] {
            [disk] if self.inner.lost.is_empty() => disk.volume.identity().volume,
            _ => self.inner.node,
        }
    }

    /// The block pool, once the metadata server has told it; kept with the volumes.
    pub(crate) fn pool(&self) -> Option<String> {
        self.lock_pool().clone()
    }

    /// Binds all disks to a cluster's block pool. One that cannot be is out, unless it is another cluster's.
    pub(crate) fn join_pool(&self, pool: &str) -> Result<(), VolumeError> {
        for disk in self.inner.disks.iter().filter(|disk| self.is_alone() || disk.is_sound()) {
            match disk.volume.join_pool(pool) {
                Err(VolumeError::Io { op, path, source }) if !self.is_alone() => {
                    disk.volume.give_up(format!("{op} {path}: {source}"));
                }
                joined => joined?,
            }
        }
        *self.lock_pool() = Some(pool.to_owned());
        Ok(())
    }

    fn lock_pool(&self) -> MutexGuard<'_, Option<String>> {
        self.inner.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disks(&self) -> &[Disk] {
        &self.inner.disks
    }

    /// Where hash trees are kept. They can all be made again, so one of the disks is enough: the first that was opened,
    /// for what lies below a mount point where none is mounted is nobody's.
    pub(crate) fn trees(&self) -> PathBuf {
        self.inner.disks.first().map(|disk| disk.dir.join("trees")).unwrap_or_default()
    }

    /// Whether that one was not given up.
    pub(crate) fn has_trees(&self) -> bool {
        self.inner.disks.first().is_some_and(|disk| !disk.hangs())
    }

    /// There is no other one to go on with.
    fn is_alone(&self) -> bool {
        self.inner.disks.len() == 1
    }

    fn any_sound(&self) -> bool {
        self.inner.disks.iter().any(Disk::is_sound)
    }

    /// Nothing counts any more that is there. What is on a disk that was only made read-only is sound: it counts as
    /// long as no other disk could take the copies.
    pub(crate) fn is_out(&self, at: usize) -> bool {
        let disk = &self.inner.disks[at];
        !disk.keeps() && (!disk.volume.is_read_only() || self.any_sound())
    }

    /// It did not say of late how it is, or has failed.
    fn is_silent(&self, at: usize) -> bool {
        let disk = &self.inner.disks[at];
        let age = self.inner.clock.monotonic().saturating_sub(disk.gauge().at);
        !self.is_alone() && (!disk.keeps() || age >= SILENT_MAX)
    }

    /// Whether work on this disk may take long: it does not answer, and is not out yet.
    pub(crate) fn holds_up(&self, at: usize) -> bool {
        self.is_silent(at) && !self.is_out(at)
    }

    /// Whether the disk that has this block holds up those who want it.
    pub(crate) fn is_held_up(&self, block: BlockId) -> bool {
        self.place(block).is_some_and(|at| self.holds_up(at))
    }

    /// The disk that somebody works on at this moment who decides about this block.
    pub(crate) fn decided_at(&self, block: BlockId) -> Option<usize> {
        self.inner.places.claimed_at(block)
    }

    /// The disks that are out.
    pub(crate) fn out(&self) -> Vec<usize> {
        (0..self.inner.disks.len()).filter(|at| self.is_out(*at)).collect()
    }

    /// Where a block is, whether that disk works or not.
    fn place(&self, block: BlockId) -> Option<usize> {
        self.inner.places.get(block)
    }

    fn note(&self, block: BlockId, at: usize) {
        self.inner.places.set(block, at);
    }

    fn forget(&self, block: BlockId, at: usize) {
        self.inner.places.forget(block, at);
    }

    /// The disk that has a block and is not out.
    fn holder(&self, block: BlockId) -> Option<&Disk> {
        let at = self.place(block).filter(|at| !self.is_out(*at))?;
        Some(&self.inner.disks[at])
    }

    /// The disk that a change of a replica goes to. A replica that may be on a disk that is out is not "not found":
    /// nobody may conclude from it that nothing is there.
    fn changing(&self, block: BlockId, claim: &Option<Claim<'_>>) -> Result<usize> {
        match self.place(block) {
            Some(at) if self.is_out(at) => Err(out(&self.inner.disks[at])),
            Some(at) => {
                enter(claim, at)?;
                Ok(at)
            }
            None => Err(self.absent(block)),
        }
    }

    /// Nothing is known of the block, and it may be on a disk that was not there at the start.
    pub(crate) fn may_be_missed(&self, block: BlockId) -> bool {
        let is_unknown = self.inner.places.known(block).is_none();
        !self.inner.lost.is_empty() && is_unknown && matches!(self.find(block), Ok(None))
    }

    fn absent(&self, block: BlockId) -> ReplicaError {
        match self.inner.lost.first() {
            None => ReplicaError::NotFound { block },
            Some(lost) => {
                let dir = lost.dir.display();
                ReplicaError::VolumeFailed { reason: format!("{block} may be in {dir}, which is out: {}", lost.reason) }
            }
        }
    }

    fn claim(&self, block: BlockId) -> Option<Claim<'_>> {
        self.inner.places.claim(block, |at| self.inner.disks[at].hangs())
    }

    /// What is known of the disks without asking them.
    fn pictures(&self) -> Vec<Picture> {
        let picture = |(at, disk): (usize, &Disk)| {
            let Gauge { usage, .. } = disk.gauge();
            Picture {
                used: usage.used,
                free: usage.remaining,
                stream_count: disk.load.count(),
                takes: disk.is_sound() && !self.is_silent(at),
            }
        };
        self.inner.disks.iter().enumerate().map(picture).collect()
    }

    /// Disks for a new replica, the best first.
    fn order(&self) -> Vec<usize> {
        if self.is_alone() {
            return vec![0];
        }
        choose::order(&self.pictures(), self.inner.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// A disk refused a replica: perhaps it is gone, which is to be known before the next one comes.
    pub(crate) fn did_not_take(&self, at: usize, block: BlockId) {
        let disk = &self.inner.disks[at];
        if disk.is_sound()
            && let Err(error) = disk.look(&self.inner.clock)
        {
            tracing::warn!(dir = %disk.dir.display(), %error, "a disk does not take a replica");
        }
        // One that hangs is not asked again: what was noted there is out with it.
        if !disk.hangs() && !matches!(disk.volume.find(block), Ok(Some(_))) {
            self.forget(block, at);
        }
    }

    /// The disk for a small replica, not one of `avoided`. It is noted as the block's place before the replica is
    /// there, so that one that is sent again meets the first. Waits for nothing.
    pub(crate) fn place_small(&self, block: BlockId, avoided: &[usize]) -> Option<(usize, Stream)> {
        let fits = |at: &usize| !avoided.contains(at);
        let at = match self.place(block).filter(|at| fits(at) && !self.is_out(*at)) {
            Some(at) => at,
            None => {
                let at = self.order().into_iter().find(fits)?;
                let stale = self.place(block).is_some_and(|known| !fits(&known) || self.is_out(known));
                if stale {
                    self.note(block, at);
                }
                self.inner.places.get_or_set(block, at)
            }
        };
        Some((at, self.inner.disks[at].load.begin()))
    }

    /// See [`Volume::reopen`].
    pub(crate) fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Writer> {
        let claim = self.claim(block);
        let at = self.changing(block, &claim)?;
        let disk = &self.inner.disks[at];
        let stream = disk.load.begin();
        Ok(Writer::new(disk.volume.reopen(block, ask)?, at, stream))
    }

    pub(crate) fn find(&self, block: BlockId) -> Result<Option<ReplicaInfo>> {
        loop {
            let place = self.place(block);
            let found = match self.holder(block) {
                Some(disk) => disk.volume.find(block)?,
                None => None,
            };
            // It may have moved between the two looks.
            if found.is_some() || place == self.place(block) {
                return Ok(found);
            }
        }
    }

    /// See [`Volume::read`]. A disk that is out serves what it has if it was only made read-only, or if none works:
    /// then nobody waits behind its readers.
    pub(crate) fn read(&self, block: BlockId, generation_min: Generation) -> Result<Reader> {
        loop {
            let place = self.place(block);
            let read = match place {
                None => Err(ReplicaError::NotFound { block }),
                Some(at) if self.is_out(at) && !self.inner.disks[at].volume.is_read_only() && self.any_sound() => {
                    Err(out(&self.inner.disks[at]))
                }
                Some(at) => self.inner.disks[at].volume.read(block, generation_min),
            };
            if read.is_ok() || place == self.place(block) {
                return read.or_else(|error| self.read_readable(block, generation_min).ok_or(error));
            }
        }
    }

    /// See [`Volume::verify`].
    pub(crate) fn verify(&self, block: BlockId) -> Result<u32> {
        self.read(block, Generation(0))?.verify()
    }

    /// See [`Volume::begin_recovery`].
    pub(crate) fn begin_recovery(&self, block: BlockId, recovery: Generation) -> Result<ReplicaInfo> {
        let claim = self.claim(block);
        match self.inner.disks[self.changing(block, &claim)?].volume.begin_recovery(block, recovery) {
            Err(ReplicaError::NotFound { .. }) => Err(self.absent(block)),
            outcome => outcome,
        }
    }

    /// See [`Volume::finish_recovery`].
    pub(crate) fn finish_recovery(&self, block: BlockId, recovery: Generation, len: u64) -> Result<()> {
        let claim = self.claim(block);
        self.inner.disks[self.changing(block, &claim)?].volume.finish_recovery(block, recovery, len)
    }

    /// The disks that a block is to be deleted from: the one that has it, or all that work, for its rest may be
    /// somewhere: what damage has left is known to no index. What is on a disk that is out is not here any more.
    pub(crate) fn to_delete_from(&self, block: BlockId) -> Vec<usize> {
        match self.place(block) {
            Some(at) if self.is_out(at) => Vec::new(),
            Some(at) => vec![at],
            None => (0..self.inner.disks.len()).filter(|at| self.inner.disks[*at].is_sound()).collect(),
        }
    }

    /// See [`Volume::delete`].
    pub(crate) fn delete(&self, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let mut deleted = false;
        for at in self.to_delete_from(block) {
            deleted |= self.delete_at(at, block, generation_at_most)?;
        }
        Ok(deleted)
    }

    /// As [`Self::delete`], of this disk alone.
    pub(crate) fn delete_at(&self, at: usize, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let claim = self.claim(block);
        if self.is_out(at) {
            return Ok(false);
        }
        enter(&claim, at)?;
        let volume = &self.inner.disks[at].volume;
        let deleted = volume.delete(block, generation_at_most)?;
        if deleted && volume.find(block)?.is_none() {
            self.forget(block, at);
        }
        Ok(deleted)
    }

    /// See [`Volume::set_owner`].
    pub(crate) fn set_owner(&self, block: BlockId, file: FileId, home: ContainerId) -> Result<bool> {
        let claim = self.claim(block);
        match self.place(block).filter(|at| !self.is_out(*at)) {
            Some(at) => {
                enter(&claim, at)?;
                self.inner.disks[at].volume.set_owner(block, file, home)
            }
            None => Ok(false),
        }
    }

    /// Up to `limit` replicas from `from` on, in the order of their ids, each once; fewer are the last ones.
    pub(crate) fn replicas(&self, from: BlockId, limit: usize) -> Result<Vec<ReplicaInfo>> {
        let mut merged: BTreeMap<BlockId, ReplicaInfo> = BTreeMap::new();
        // How far each disk was asked; all has been told below the least of them.
        let sound = (0..self.inner.disks.len()).filter(|at| !self.is_out(*at));
        let mut asked: Vec<(usize, Option<BlockId>)> = sound.map(|at| (at, Some(from))).collect();
        let step = (limit / asked.len().max(1)).saturating_add(16);
        while let Some((at, next)) = asked.iter_mut().min_by_key(|(_, next)| next.unwrap_or(BlockId(u64::MAX))) {
            let Some(first) = *next else { break };
            if merged.range(..first).nth(limit.saturating_sub(1)).is_some() {
                break;
            }
            let at = *at;
            let infos = self.inner.disks[at].volume.replicas(first, step)?;
            let last = infos.last().and_then(|last| last.identity.block.0.checked_add(1)).map(BlockId);
            *next = last.filter(|_| infos.len() == step);
            for info in infos {
                let block = info.identity.block;
                if self.place(block).is_none_or(|place| place == at) {
                    merged.insert(block, info);
                } else {
                    merged.entry(block).or_insert(info);
                }
            }
        }
        Ok(merged.into_values().take(limit).collect())
    }

    /// Whether nobody waits for a disk that is asked for its usage.
    pub(crate) fn is_gauged(&self) -> bool {
        !self.is_alone() || !self.inner.disks[0].is_sound()
    }

    /// Bytes of all disks that are not out. Waits for a disk only if there is no other, and it works.
    pub(crate) fn usage(&self) -> Result<node::Usage> {
        let mut sum = node::Usage::default();
        for (_, disk) in self.inner.disks.iter().enumerate().filter(|(at, _)| !self.is_out(*at)) {
            let usage = if self.is_gauged() { disk.gauge().usage } else { disk.volume.usage()? };
            sum.capacity_len += usage.capacity;
            sum.used_len += usage.used;
            // One that takes no writes offers no room.
            sum.free_len += if disk.is_sound() { usage.remaining } else { 0 };
        }
        Ok(sum)
    }

    /// Each disk by itself, those that failed too.
    pub(crate) fn reports(&self) -> Vec<node::Disk> {
        let there = self.inner.disks.iter().map(|disk| {
            let usage = disk.gauge().usage;
            node::Disk {
                volume: disk.volume.identity().volume.to_string(),
                dir: disk.dir.display().to_string(),
                failure: disk.volume.failure().unwrap_or_default().to_owned(),
                capacity_len: usage.capacity,
                used_len: usage.used,
                free_len: usage.remaining,
                replica_count: usage.replica_count,
                stream_count: disk.load.count(),
                unread_ms: disk.unread_ms(self.inner.clock.now()),
            }
        });
        let lost = self.inner.lost.iter().map(|lost| node::Disk {
            volume: lost.volume.map_or(String::new(), |volume| volume.to_string()),
            dir: lost.dir.display().to_string(),
            failure: lost.reason.clone(),
            ..node::Disk::default()
        });
        there.chain(lost).collect()
    }
}

/// From here on the claim's holder may wait for this disk.
fn enter(claim: &Option<Claim<'_>>, at: usize) -> Result<()> {
    claim.as_ref().map_or(Ok(()), |claim| claim.enter(at)).map_err(|_void| ReplicaError::Hangs)
}

/// Does what follows for others, unless the disk was given up that the claim's holder waited for.
fn conclude(claim: &Option<Claim<'_>>, change: impl FnOnce()) -> Result<()> {
    match claim {
        Some(claim) => claim.conclude(change).map_err(|_void| ReplicaError::Hangs),
        None => {
            change();
            Ok(())
        }
    }
}

fn out(disk: &Disk) -> ReplicaError {
    let reason = disk.volume.failure().unwrap_or("it is out").to_owned();
    ReplicaError::VolumeFailed { reason: format!("{}: {reason}", disk.dir.display()) }
}
