//! The disks of a node, and what is known of each: which has a block, which has failed, which does not answer.

use crate::block_locations::BlockLocations;
use crate::choose::{self, DiskState};
use crate::claims::{Claim, enter};
use crate::disk::{Disk, Gauge};
use crate::duplicates::Duplicate;
use crate::thread_quota;
use container::{ReplicaError, VolumeError};
use io::{SystemClock, ThreadQuota};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{BlockId, NodeId};

pub(crate) type Result<T, E = ReplicaError> = std::result::Result<T, E>;

/// A disk that does not say in so long how much room it has, while another one does, is not chosen for new replicas: it
/// hangs, or is very busy.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// A disk that was not there at the start, or did not open.
#[derive(Debug)]
pub(crate) struct UnopenedDisk {
    pub(crate) dir: PathBuf,
    pub(crate) volume: Option<NodeId>,
    pub(crate) reason: String,
}

/// Clones are the same disks.
#[derive(Clone, Debug)]
pub struct Disks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeId,
    /// At least one.
    disks: Vec<Disk>,
    unopened: Vec<UnopenedDisk>,
    block_locations: BlockLocations,
    /// For work that asks all of them.
    all_disks_quota: ThreadQuota,
    /// Replicas of blocks that another disk has as well.
    duplicates: Mutex<Vec<Duplicate>>,
    turn: AtomicUsize,
    /// See [`Disks::changed`].
    change_count: AtomicU32,
    pool: Mutex<Option<String>>,
    clock: SystemClock,
}

impl Disks {
    /// Those that were opened (at least one), and those that were not.
    pub(crate) fn new(
        node: NodeId,
        pool: Option<String>,
        (disks, unopened): (Vec<Disk>, Vec<UnopenedDisk>),
        (block_locations, duplicates): (BlockLocations, Vec<Duplicate>),
    ) -> Self {
        let inner = Inner {
            node,
            disks,
            unopened,
            block_locations,
            all_disks_quota: thread_quota::of_all(),
            duplicates: Mutex::new(duplicates),
            turn: AtomicUsize::new(0),
            change_count: AtomicU32::new(0),
            pool: Mutex::new(pool),
            clock: SystemClock::new(),
        };
        let disks = Self { inner: inner.into() };
        disks.check();
        disks
    }

    pub fn node_id(&self) -> NodeId {
        self.inner.node
    }

    /// What clients are shown as the storage of this node's replicas: it stays the same whichever disk fails. A node
    /// whose list of disks has one shows that one's volume, as in its report of disks.
    pub fn storage_id(&self) -> NodeId {
        match &self.inner.disks[..] {
            [disk] if self.inner.unopened.is_empty() => disk.identity().volume,
            _ => self.inner.node,
        }
    }

    /// The block pool, once the metadata server has told it; kept with the volumes.
    pub fn pool(&self) -> Option<String> {
        self.lock_pool().clone()
    }

    /// Binds all disks to a cluster's block pool. One that cannot be has failed if another one is bound; if none
    /// is, the first error is the answer. So it is if one of them is another cluster's.
    pub fn join_pool(&self, pool: &str) -> Result<(), VolumeError> {
        let (mut bound_count, mut unbound) = (0, Vec::new());
        for disk in &self.inner.disks {
            match disk.join_pool(pool) {
                Ok(()) => bound_count += usize::from(disk.is_sound()),
                Err(VolumeError::Io { .. }) if !disk.is_sound() => {} // it has failed
                Err(error @ VolumeError::Io { .. }) => unbound.push((disk, error)),
                Err(error) => return Err(error),
            }
        }
        if bound_count == 0 && !unbound.is_empty() {
            return Err(unbound.swap_remove(0).1);
        }
        unbound.into_iter().for_each(|(disk, error)| disk.volume().declare_failed(error.to_string()));
        *self.lock_pool() = Some(pool.to_owned());
        self.changed();
        Ok(())
    }

    fn lock_pool(&self) -> MutexGuard<'_, Option<String>> {
        self.inner.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn disks(&self) -> &[Disk] {
        &self.inner.disks
    }

    /// Where hash trees are kept. They can all be made again, so one of the disks is enough: the first that was opened,
    /// for what lies below a mount point where none is mounted is nobody's.
    pub fn trees(&self) -> PathBuf {
        self.inner.disks.first().map(|disk| disk.dir().join("trees")).unwrap_or_default()
    }

    /// Where layouts of files are kept, for the same reason.
    pub fn layouts(&self) -> PathBuf {
        self.inner.disks.first().map(|disk| disk.dir().join("layouts")).unwrap_or_default()
    }

    /// Whether that one was not given up.
    pub fn has_trees(&self) -> bool {
        self.inner.disks.first().is_some_and(|disk| !disk.hangs())
    }

    pub(crate) fn unopened(&self) -> &[UnopenedDisk] {
        &self.inner.unopened
    }

    pub(crate) fn block_locations(&self) -> &BlockLocations {
        &self.inner.block_locations
    }

    pub(crate) fn clock(&self) -> &SystemClock {
        &self.inner.clock
    }

    /// For work that asks all disks.
    pub(crate) fn all_disks_quota(&self) -> &ThreadQuota {
        &self.inner.all_disks_quota
    }

    pub(crate) fn change_count(&self) -> &AtomicU32 {
        &self.inner.change_count
    }

    pub(crate) fn check_duplicates(&self) {
        let duplicates = self.inner.duplicates.lock().unwrap_or_else(PoisonError::into_inner);
        let disk_count = self.inner.disks.len();
        assert!(duplicates.is_empty() || disk_count > 1, "one disk has no block twice");
        assert!(duplicates.iter().all(|duplicate| duplicate.disk < disk_count), "a duplicate is on one of the disks");
    }

    /// Replicas of blocks that another disk has as well. They are told once.
    pub(crate) fn take_duplicates(&self) -> Vec<Duplicate> {
        std::mem::take(&mut *self.inner.duplicates.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn any_sound(&self) -> bool {
        self.inner.disks.iter().any(Disk::is_sound)
    }

    /// Nothing counts any more that is there. What is on a disk that was only made read-only is sound: it counts as
    /// long as no other disk could take the copies.
    pub fn is_failed(&self, at: usize) -> bool {
        let disk = &self.inner.disks[at];
        !disk.keeps() && (!disk.volume().is_read_only() || self.any_sound())
    }

    /// It did not say of late how it is, while another one did: what holds up all of them is no failure of any. One
    /// that has failed is not asked, and refuses at once.
    fn is_silent(&self, at: usize, newest: Duration) -> bool {
        let disk = &self.inner.disks[at];
        disk.keeps() && newest.saturating_sub(disk.gauge().at) >= SILENT_MAX
    }

    /// When a disk answered last.
    fn newest_answer(&self) -> Duration {
        self.inner.disks.iter().map(|disk| disk.gauge().at).max().unwrap_or_default()
    }

    /// Whether work on this disk may take long: it does not answer, and has not failed yet.
    pub fn holds_up(&self, at: usize) -> bool {
        self.is_silent(at, self.newest_answer()) && !self.is_failed(at)
    }

    /// Whether the disk that has this block holds up those who want it.
    pub fn is_held_up(&self, block: BlockId) -> bool {
        self.place(block).is_some_and(|at| self.holds_up(at))
    }

    /// The disk that somebody works on at this moment who decides about this block.
    pub fn decided_at(&self, block: BlockId) -> Option<usize> {
        self.inner.block_locations.claimed_at(block)
    }

    /// The disks that have failed.
    pub fn failed_disks(&self) -> Vec<usize> {
        (0..self.inner.disks.len()).filter(|at| self.is_failed(*at)).collect()
    }

    /// Where a block is, whether that disk works or not.
    pub(crate) fn place(&self, block: BlockId) -> Option<usize> {
        let at = self.inner.block_locations.get(block)?;
        Some(self.place_before(block, at).unwrap_or(at))
    }

    /// Where a block is that the index has at a disk that failed: a copy of it may have been begun there, and what was
    /// to be copied counts again, as no disk is left that takes writes.
    fn place_before(&self, block: BlockId, at: usize) -> Option<usize> {
        if self.any_sound() || !self.is_failed(at) {
            return None;
        }
        let counts = |other: &usize| *other != at && !self.is_failed(*other) && !self.inner.disks[*other].hangs();
        let has = |other: &usize| matches!(self.inner.disks[*other].volume().find(block), Ok(Some(_)));
        (0..self.inner.disks.len()).filter(counts).find(has)
    }

    pub(crate) fn note(&self, block: BlockId, at: usize) {
        self.inner.block_locations.set(block, at);
    }

    pub(crate) fn forget(&self, block: BlockId, at: usize) {
        self.inner.block_locations.forget(block, at);
    }

    /// The disk that has a block and is not out: who looks the block up asks it.
    pub fn asked_at(&self, block: BlockId) -> Option<usize> {
        self.place(block).filter(|at| !self.is_failed(*at))
    }

    pub(crate) fn holder(&self, block: BlockId) -> Option<&Disk> {
        self.asked_at(block).map(|at| &self.inner.disks[at])
    }

    /// The disk that a change of a replica goes to. A replica that may be on a failed disk is not "not found":
    /// nobody may conclude from it that nothing is there.
    pub(crate) fn changing(&self, block: BlockId, claim: &Option<Claim<'_>>) -> Result<usize> {
        match self.place(block) {
            Some(at) if self.is_failed(at) => Err(self.inner.disks[at].failed_error()),
            Some(at) => {
                enter(claim, at)?;
                Ok(at)
            }
            None => Err(self.absent(block)),
        }
    }

    pub(crate) fn absent(&self, block: BlockId) -> ReplicaError {
        match self.inner.unopened.first() {
            None => ReplicaError::NotFound { block },
            Some(unopened) => {
                let dir = unopened.dir.display();
                ReplicaError::VolumeFailed {
                    reason: format!("{block} may be in {dir}, which has failed: {}", unopened.reason),
                }
            }
        }
    }

    pub(crate) fn claim(&self, block: BlockId) -> Option<Claim<'_>> {
        self.inner.block_locations.claim(block, |at| self.inner.disks[at].hangs())
    }

    /// What is known of the disks without asking them.
    pub(crate) fn disk_states(&self) -> Vec<DiskState> {
        let newest = self.newest_answer();
        let state = |(at, disk): (usize, &Disk)| {
            let Gauge { usage, .. } = disk.gauge();
            DiskState {
                used: usage.used,
                free: usage.remaining,
                stream_count: disk.load().count(),
                takes: disk.is_sound() && !self.is_silent(at, newest),
            }
        };
        self.inner.disks.iter().enumerate().map(state).collect()
    }

    /// Disks for a new replica, the best first. Where none takes one, all that answer are asked, so that whoever writes
    /// hears their own refusal.
    pub(crate) fn order(&self) -> Vec<usize> {
        let order = choose::order(&self.disk_states(), self.inner.turn.fetch_add(1, Ordering::Relaxed));
        if !order.is_empty() {
            return order;
        }
        let newest = self.newest_answer();
        let answers = |at: &usize| !self.inner.disks[*at].hangs() && !self.is_silent(*at, newest);
        (0..self.inner.disks.len()).filter(answers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::{Identity, Options};
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{ContainerId, Generation, InodeId};

    /// Runs a check with one disk, with two, and with three.
    fn each(check: impl Fn(&Disks)) {
        for count in 1..=3 {
            let dir = tempfile::tempdir().unwrap();
            let dirs: Vec<PathBuf> = (0..count).map(|number| dir.path().join(format!("d{number}"))).collect();
            let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
            check(&disks);
            disks.check_at_rest();
        }
    }

    fn write(disks: &Disks, block: u64) -> Result<()> {
        let (generation, file, home) = (Generation(1001), InodeId(7), ContainerId(0));
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let identity = Identity { block: BlockId(block), generation, file, home, checksum };
        let mut writer = disks.create(identity)?;
        writer.write(0, &[3; 1000], &[])?;
        writer.put(1000)?;
        disks.check_at_rest();
        Ok(())
    }

    #[test]
    fn whoever_writes_hears_why_no_disk_takes_it() {
        each(|disks| {
            write(disks, 1).unwrap();
            for (at, disk) in disks.disks().iter().enumerate() {
                disk.volume().become_read_only(format!("reason {at}"));
            }
            let refusal = write(disks, 2).unwrap_err().to_string();
            assert!(refusal.contains("reason 0"), "{refusal}");
            assert!(disks.failed_disks().is_empty(), "there is nowhere to copy to");
            assert!(!(0..disks.disks().len()).any(|at| disks.holds_up(at)), "they refuse at once");
            disks.verify(BlockId(1)).unwrap();
        });
    }

    #[test]
    fn nothing_counts_of_a_node_whose_disks_are_all_gone() {
        each(|disks| {
            write(disks, 1).unwrap();
            disks.disks().iter().for_each(|disk| disk.volume().declare_failed("it is gone".to_owned()));
            let refusal = write(disks, 2).unwrap_err().to_string();
            assert!(refusal.contains("it is gone"), "{refusal}");
            assert_eq!(disks.failed_disks().len(), disks.disks().len());
            assert_eq!(disks.usage(), types::StorageUsage::default());
            assert_eq!(disks.find(BlockId(1)).unwrap(), None, "nothing counts that was there");
        });
    }

    #[test]
    fn a_disk_holds_up_others_only_while_another_one_answers() {
        each(|disks| {
            let (first, others) = disks.disks().split_first().unwrap();
            disks.disks().iter().for_each(|disk| disk.set_answered(Duration::from_secs(100)));
            assert!((0..disks.disks().len()).all(|at| !disks.holds_up(at)), "all of them or none");
            others.iter().for_each(|disk| disk.set_answered(Duration::from_secs(200)));
            assert_eq!(disks.holds_up(0), !others.is_empty());
            (0..6).for_each(|block| write(disks, block).unwrap());
            let there = (0..6).filter(|block| disks.place(BlockId(*block)) == Some(0)).count();
            assert_eq!(there, if others.is_empty() { 6 } else { 0 });
            first.set_answered(Duration::from_secs(199));
            assert!(!disks.holds_up(0));
        });
    }

    /// The first disk cannot write its identity.
    #[test]
    fn a_disk_that_cannot_be_bound_to_a_pool_is_out_if_another_one_is_not() {
        each(|disks| {
            std::fs::create_dir_all(disks.disks()[0].dir().join("VERSION.new/in the way")).unwrap();
            let joined = disks.join_pool("BP-1");
            if disks.disks().len() == 1 {
                assert!(matches!(joined, Err(VolumeError::Io { .. })), "{joined:?}");
                assert_eq!((disks.failed_disks(), disks.pool()), (Vec::new(), None));
            } else {
                joined.unwrap();
                assert_eq!((disks.failed_disks(), disks.pool().as_deref()), (vec![0], Some("BP-1")));
            }
            assert!(matches!(disks.join_pool("BP-2"), Err(VolumeError::ForeignPool { .. })) || disks.pool().is_none());
        });
    }
}
