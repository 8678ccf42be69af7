//! Replicas move from the fullest disk of a node to the emptiest, when that is asked for.
//!
//! ```text
//! choose::next_shift ──▶ some replicas of the fuller disk
//!    read and verified ──▶ put on the other, synced ──▶ read back ──▶ index points there ──▶ deleted where it was
//! ```
//!
//! Promise: a replica is deleted only after its copy was read back, and only if it is still the one that was copied; a
//! crash in between leaves two equal ones, which the next start resolves. Readers that have begun go on where they are.
//! Small replicas move by the hundred, with one sync.

use crate::choose::{self, FULL_PARTS, Shift};
use crate::disks::{Disks, Result};
use container::{Advice, Identity, Reader, ReplicaError, ReplicaInfo, SmallPut};
use types::{BlockId, ChecksumSpec, ReplicaState};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 500;
/// Small replicas that move together, and their bytes.
const BATCH_COUNT_MAX: usize = 200;
const BATCH_LEN_MAX: u64 = 4 << 20;
/// A longer replica is copied in pieces of about that.
const PIECE_LEN: u64 = 1 << 20;

/// What whoever ordered the balancing says of it, and hears.
pub trait BalanceOrder {
    /// How far a disk may be from the mean of all, in parts of 10⁹. `None`: the order does not stand any more.
    fn within(&self) -> Option<u64>;
    /// Waits until so many more bytes may move. False: the order does not stand any more.
    fn wait(&self, len: u64) -> bool;
    /// Whether nobody writes the replica, or is about to delete it.
    fn may_move(&self, info: &ReplicaInfo) -> bool;
    /// So many bytes have to move until the disks are even.
    fn on_left(&self, len: u64);
    fn on_moved(&self, info: &ReplicaInfo);
    /// It stays where it is, as its copy cannot be used.
    fn on_failed(&self, info: &ReplicaInfo);
    /// It stays where it is, as it is damaged.
    fn on_damaged(&self, info: &ReplicaInfo, error: &ReplicaError);
}

/// Why moving ended.
#[derive(Debug, thiserror::Error)]
pub enum BalanceEnd {
    #[error("the disks are even")]
    Even,
    #[error("it was stopped")]
    Stopped,
    #[error("no replica brings the disks nearer to each other")]
    Fruitless,
    #[error(transparent)]
    Failed(#[from] ReplicaError),
}

/// How far it is.
#[derive(Debug)]
pub struct Balancing {
    disks: Disks,
    /// Of each disk.
    cursors: Vec<BlockId>,
    /// Disks from which nothing fits, since something last moved.
    fruitless_count: usize,
}

/// A replica in memory, verified.
struct Small {
    info: ReplicaInfo,
    identity: Identity,
    data: Vec<u8>,
    sums: Vec<u8>,
}

impl Balancing {
    pub fn new(disks: &Disks) -> Self {
        Self { disks: disks.clone(), cursors: vec![BlockId(0); disks.disks().len()], fruitless_count: 0 }
    }

    /// Moves some replicas from the fullest to the emptiest disk. Each step asks all disks how they are.
    pub fn step(&mut self, order: &dyn BalanceOrder) -> Result<(), BalanceEnd> {
        let Some(within) = order.within() else { return Err(BalanceEnd::Stopped) };
        self.look_again();
        let disk_states = self.disks.disk_states();
        assert_eq!(disk_states.len(), self.cursors.len(), "disks neither come nor go");
        let Some(shift) = choose::next_shift(&disk_states, within.min(FULL_PARTS)) else {
            return Err(BalanceEnd::Even);
        };
        order.on_left(choose::uneven_len(&disk_states));
        let moves = Moves { disks: &self.disks, shift, order };
        match moves.some(&mut self.cursors[shift.from])? {
            0 if self.fruitless_count > 0 => return Err(BalanceEnd::Fruitless),
            0 => self.fruitless_count += 1, // from the beginning once more: it may have begun in the middle
            _ => self.fruitless_count = 0,
        }
        Ok(())
    }

    /// Asks the disks now how full they are: much may have moved since they were looked at last.
    fn look_again(&self) {
        for disk in self.disks.disks().iter().filter(|disk| disk.is_sound()) {
            let _a_failed_disk_is_left_out = disk.probe(self.disks.clock());
        }
    }
}

/// Moves from one disk to another.
struct Moves<'a> {
    disks: &'a Disks,
    shift: Shift,
    order: &'a dyn BalanceOrder,
}

impl Moves<'_> {
    /// Moves some replicas. Answers how many; at the end of the disk the cursor goes back to its beginning.
    fn some(&self, cursor: &mut BlockId) -> Result<usize> {
        let Shift { from, to, len_max, len } = self.shift;
        assert_ne!(from, to, "a shift is between two disks");
        let source = self.disks.disks()[from].volume();
        let (mut moved, mut batch, mut batch_len) = (0, Vec::new(), 0);
        loop {
            let infos = source.replicas(*cursor, STEP_COUNT)?;
            for info in &infos {
                if self.disks.is_failed(from) || self.disks.is_failed(to) {
                    return Ok(moved);
                }
                let block = info.identity.block;
                *cursor = BlockId(block.0.saturating_add(1));
                let fits = info.state == ReplicaState::Finalized
                    && info.len <= len_max
                    && self.disks.place(block) == Some(from)
                    && self.order.may_move(info);
                if !fits {
                    continue;
                }
                if !self.order.wait(info.len) {
                    return Ok(moved);
                }
                if self.disks.disks()[to].volume().is_small(info.len) {
                    let Some(small) = self.fetch(info)? else { continue };
                    batch_len += info.len;
                    batch.push(small);
                    if batch.len() < BATCH_COUNT_MAX && batch_len < BATCH_LEN_MAX.min(len_max).min(len.max(1)) {
                        continue;
                    }
                    moved += self.put_batch(std::mem::take(&mut batch))?;
                    batch_len = 0;
                } else {
                    moved += usize::from(self.copy(info)?);
                }
                if moved > 0 {
                    // A look at the disks again: they have come nearer to each other.
                    return Ok(moved);
                }
            }
            if infos.len() < STEP_COUNT {
                *cursor = BlockId(0);
                break;
            }
        }
        if !batch.is_empty() {
            moved += self.put_batch(batch)?;
        }
        Ok(moved)
    }

    /// Opens a replica where it is. `None`: it is not there any more, or damaged, which is told.
    fn open(&self, info: &ReplicaInfo) -> Result<Option<Reader>> {
        let block = info.identity.block;
        match self.disks.disks()[self.shift.from].volume().read(block, info.identity.generation) {
            Ok(reader) if reader.state() == ReplicaState::Finalized && reader.len() == info.len => Ok(Some(reader)),
            Ok(_) | Err(ReplicaError::NotFound { .. } | ReplicaError::Stale { .. } | ReplicaError::State { .. }) => {
                Ok(None)
            }
            Err(error) => self.damaged(info, error).map(|()| None),
        }
    }

    /// What cannot be read is told like any other damage, and stays where it is.
    fn damaged(&self, info: &ReplicaInfo, error: ReplicaError) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        tracing::warn!(block = %info.identity.block, %error, "a replica that was to move is damaged");
        self.order.on_damaged(info, &error);
        Ok(())
    }

    fn fetch(&self, info: &ReplicaInfo) -> Result<Option<Small>> {
        let Some(reader) = self.open(info)? else { return Ok(None) };
        let (mut data, mut sums) = (vec![0; info.len as usize], Vec::new());
        match piece(&reader, 0, &mut data, &mut sums) {
            Ok(()) => Ok(Some(Small { info: *info, identity: reader.identity(), data, sums })),
            Err(error) => self.damaged(info, error).map(|()| None),
        }
    }

    /// Puts small replicas on the other disk with one sync, and removes them here.
    fn put_batch(&self, batch: Vec<Small>) -> Result<usize> {
        let target = self.disks.disks()[self.shift.to].volume();
        // What is there already is a duplicate that is not settled yet.
        let mut fresh = Vec::new();
        for small in batch {
            if target.find(small.identity.block)?.is_none() {
                fresh.push(small);
            }
        }
        let puts: Vec<SmallPut<'_>> = fresh
            .iter()
            .map(|small| SmallPut { identity: small.identity, data: &small.data, sums: &small.sums })
            .collect();
        let outcomes = target.put_batch(&puts, true);
        assert_eq!(outcomes.len(), fresh.len(), "each replica of a batch has an outcome");
        // Each that was put is brought to its end, whatever became of the others: nobody would come back for it.
        let (mut moved, mut failed) = (0, None);
        for (small, outcome) in fresh.iter().zip(outcomes) {
            let changed = match outcome {
                Ok(()) => self.change_over(&small.info),
                Err(error) if error.advice() == Advice::WriteElsewhere => Err(error),
                Err(error) => {
                    tracing::debug!(block = %small.identity.block, %error, "a replica does not move");
                    Ok(false)
                }
            };
            match changed {
                Ok(changed) => moved += usize::from(changed),
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        failed.map_or(Ok(moved), Err)
    }

    /// Copies a long replica to the other disk, and removes it here.
    fn copy(&self, info: &ReplicaInfo) -> Result<bool> {
        let Some(reader) = self.open(info)? else { return Ok(false) };
        let target = self.disks.disks()[self.shift.to].volume();
        let mut writer = match target.create_copy(reader.identity()) {
            Err(ReplicaError::Exists { .. } | ReplicaError::Fenced { .. }) => return Ok(false),
            writer => writer?,
        };
        let spec = reader.checksum();
        let step = piece_len(spec);
        let (mut data, mut sums, mut at) = (vec![0; step.min(info.len) as usize], Vec::new(), 0);
        while at < info.len {
            let bytes = &mut data[..step.min(info.len - at) as usize];
            if let Err(error) = piece(&reader, at, bytes, &mut sums) {
                return self.damaged(info, error).map(|()| false);
            }
            writer.write(at, bytes, &sums)?;
            at += bytes.len() as u64;
            if self.order.within().is_none() {
                return Ok(false);
            }
        }
        writer.put_synced(info.len)?;
        self.change_over(info)
    }

    fn change_over(&self, info: &ReplicaInfo) -> Result<bool> {
        let moved = self.disks.change_over(self.shift.from, self.shift.to, info);
        match &moved {
            Ok(true) => self.order.on_moved(info),
            Ok(false) => {}
            Err(_) => self.order.on_failed(info),
        }
        moved
    }
}

/// Whole chunks.
fn piece_len(spec: ChecksumSpec) -> u64 {
    let chunk_len = u64::from(spec.chunk_len);
    chunk_len * (PIECE_LEN / chunk_len).max(1)
}

/// Reads bytes from `at` on, and their checksums, and holds them against each other.
fn piece(reader: &Reader, at: u64, data: &mut [u8], sums: &mut Vec<u8>) -> Result<()> {
    sums.clear();
    reader.read_at(at, data)?;
    reader.sums(at, data.len() as u64, sums)?;
    let block = reader.identity().block;
    let verified = reader.checksum().verify(data, sums);
    verified.map_err(|bad| ReplicaError::Corrupt { block, offset: at + bad as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::Options;
    use types::checksum::ChecksumKind;
    use types::{ContainerId, Generation, InodeId};

    /// It stands, and all may move.
    struct Stands;

    impl BalanceOrder for Stands {
        fn within(&self) -> Option<u64> {
            Some(0)
        }

        fn wait(&self, _: u64) -> bool {
            true
        }

        fn may_move(&self, _: &ReplicaInfo) -> bool {
            true
        }

        fn on_left(&self, _: u64) {}

        fn on_moved(&self, _: &ReplicaInfo) {}

        fn on_failed(&self, _: &ReplicaInfo) {}

        fn on_damaged(&self, _: &ReplicaInfo, _: &ReplicaError) {}
    }

    /// Of two replicas that are put together, the container of one takes none on the other disk.
    #[test]
    fn what_was_put_moves_though_others_of_its_batch_failed() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let (data, mut sums) = (vec![3; 1000], Vec::new());
        checksum.compute(&data, &mut sums);
        let (fails, moves) = (BlockId(5), BlockId(6));
        for (block, home) in [(fails, 2), (moves, 1)] {
            let (generation, file, home) = (Generation(1001), InodeId(7), ContainerId(home));
            let identity = Identity { block, generation, file, home, checksum };
            disks.disks()[0].volume().put_small(identity, &data, &sums).unwrap();
            disks.note(block, 0);
        }
        std::fs::create_dir_all(dirs[1].join("containers/2/pack")).unwrap();

        let shift = Shift { from: 0, to: 1, len_max: 1 << 20, len: 1 << 20 };
        let some = Moves { disks: &disks, shift, order: &Stands }.some(&mut BlockId(0));
        assert!(matches!(some, Err(ReplicaError::Io { .. })), "{some:?}");
        let there = |block| [0, 1].map(|at: usize| disks.disks()[at].volume().find(block).unwrap().is_some());
        assert_eq!((disks.place(fails), there(fails)), (Some(0), [true, false]));
        assert_eq!((disks.place(moves), there(moves)), (Some(1), [false, true]));
        disks.check_at_rest();
    }
}
