//! Replicas move from the fullest disk of a node to the emptiest, when that is asked for.
//!
//! ```text
//! order (heartbeat) ──▶ choose::next_shift ──▶ some replicas of the fuller disk
//!    read and verified ──▶ put on the other, synced ──▶ read back ──▶ index points there ──▶ deleted where it was
//! ```
//!
//! Promise: a replica is deleted only after its copy was read back, and only if it is still the one that was copied; a
//! crash in between leaves two equal ones, which the next start settles. At most so many bytes a second are moved.
//! Readers that have begun go on where they are. Small replicas move by the hundred, with one sync. When a disk is
//! given up, balancing ends: it may hang in that one.

use super::choose::{self, FULL_PARTS, Shift};
use super::{Disks, Result};
use crate::node::{Node, report};
use crate::ordered::Ordered;
use crate::pace::Pace;
use crate::scrub::is_damage;
use container::{Advice, Identity, Reader, ReplicaError, ReplicaInfo, SmallPut};
use std::sync::Arc;
use types::{BlockId, ChecksumSpec, ReplicaState};
use wire::node::{DiskBalanceOrder, DiskBalanceReport};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 500;
/// Small replicas that move together, and their bytes.
const BATCH_COUNT_MAX: usize = 200;
const BATCH_LEN_MAX: u64 = 4 << 20;
/// A longer replica is copied in pieces of about that.
const PIECE_LEN: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Leveller {
    ordered: Ordered<DiskBalanceOrder>,
    pace: Pace,
}

/// A replica in memory, verified.
struct Small {
    info: ReplicaInfo,
    identity: Identity,
    data: Vec<u8>,
    sums: Vec<u8>,
}

/// How far it is.
struct Pass {
    /// Of each disk.
    cursors: Vec<BlockId>,
    /// Disks from which nothing fits, since something last moved.
    fruitless_count: usize,
}

/// Why moving ended.
type Note = String;

impl Leveller {
    /// What the metadata server wants.
    pub(crate) fn order(&self, node: &Arc<Node>, order: DiskBalanceOrder) {
        if self.ordered.take(order) {
            let at = Arc::clone(node);
            io::task::spawn("disk balance", async move { at.leveller.work(&at, order.number).await });
        }
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<DiskBalanceReport> {
        self.ordered.report()
    }

    /// The order that is carried out, as long as it stands. Whoever comes back from a disk that was given up finds that
    /// it has ended.
    fn standing(&self, node: &Node, number: u64) -> Option<DiskBalanceOrder> {
        self.ordered.standing(number).filter(|_| !node.stop.is_set())
    }

    async fn work(&self, node: &Arc<Node>, number: u64) {
        let _at_work = self.ordered.at_work(number);
        let note = self.level(node, number).await;
        if !note.is_empty() {
            tracing::info!(note, "balancing of disks has ended");
        }
        self.ordered.update(|report| report.note = note);
    }

    /// Moves until nothing helps any more.
    async fn level(&self, node: &Arc<Node>, number: u64) -> Note {
        let disk_count = node.disks.disks().len();
        if disk_count < 2 {
            return String::new();
        }
        self.pace.begin();
        let mut pass = Pass { cursors: vec![BlockId(0); disk_count], fruitless_count: 0 };
        loop {
            let at = Arc::clone(node);
            // Each step looks at all disks.
            match node.disks.for_all(move |_| at.leveller.step(&at, pass, number)).await {
                Ok(Ok(next)) => pass = next,
                Ok(Err(note)) => return note,
                Err(_hangs) => return "a disk of the node does not answer".to_owned(),
            }
        }
    }

    /// Moves some replicas from the fullest to the emptiest disk. `Err`: why that was the end.
    fn step(&self, node: &Arc<Node>, mut pass: Pass, number: u64) -> Result<Pass, Note> {
        let Some(order) = self.standing(node, number) else { return Err("it was stopped".to_owned()) };
        let disks = &node.disks;
        disks.look_again();
        let pictures = disks.pictures();
        let Some(shift) = choose::next_shift(&pictures, order.within.min(FULL_PARTS)) else {
            return Err(String::new());
        };
        let left = choose::uneven_len(&pictures);
        self.ordered.update(|report| report.total_len = report.total_len.max(report.done_len + left));
        match self.shift(node, shift, &mut pass.cursors[shift.from], number) {
            Ok(0) if pass.fruitless_count > 0 => {
                return Err("no replica brings the disks nearer to each other".to_owned());
            }
            Ok(0) => pass.fruitless_count += 1, // from the beginning once more: the pass may have begun in the middle
            Ok(_) => pass.fruitless_count = 0,
            Err(error) => return Err(error.to_string()),
        }
        Ok(pass)
    }

    /// Moves some replicas. Answers how many; at the end of the disk the cursor goes back to its beginning.
    fn shift(&self, node: &Arc<Node>, shift: Shift, cursor: &mut BlockId, number: u64) -> Result<usize> {
        let Shift { from, to, len_max, len } = shift;
        let source = &node.disks.disks()[from].volume;
        let (mut moved, mut batch, mut batch_len) = (0, Vec::new(), 0);
        loop {
            let infos = source.replicas(*cursor, STEP_COUNT)?;
            for info in &infos {
                if node.disks.is_out(from) || node.disks.is_out(to) {
                    return Ok(moved);
                }
                let block = info.identity.block;
                *cursor = BlockId(block.0.saturating_add(1));
                let fits = info.state == ReplicaState::Finalized
                    && info.len <= len_max
                    && node.disks.place(block) == Some(from)
                    && !node.is_writing(block)
                    && !node.deleter.is_ordered(block, info.identity.generation);
                if !fits {
                    continue;
                }
                let Some(order) = self.standing(node, number) else { return Ok(moved) };
                let stands = || self.standing(node, number).is_some();
                self.pace.wait_while(node.now(), info.len, order.len_per_s, stands);
                if !stands() {
                    return Ok(moved);
                }
                if node.disks.disks()[to].volume.is_small(info.len) {
                    let Some(small) = self.fetch(node, from, info)? else { continue };
                    batch_len += info.len;
                    batch.push(small);
                    if batch.len() < BATCH_COUNT_MAX && batch_len < BATCH_LEN_MAX.min(len_max).min(len.max(1)) {
                        continue;
                    }
                    moved += self.put_batch(node, from, to, std::mem::take(&mut batch))?;
                    batch_len = 0;
                } else {
                    moved += usize::from(self.copy(node, from, to, info, number)?);
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
            moved += self.put_batch(node, from, to, batch)?;
        }
        Ok(moved)
    }

    /// Opens a replica where it is. `None`: it is not there any more, or damaged, which is told.
    fn open(&self, node: &Node, from: usize, info: &ReplicaInfo) -> Result<Option<Reader>> {
        let block = info.identity.block;
        match node.disks.disks()[from].volume.read(block, info.identity.generation) {
            Ok(reader) if reader.state() == ReplicaState::Finalized && reader.len() == info.len => Ok(Some(reader)),
            Ok(_) | Err(ReplicaError::NotFound { .. } | ReplicaError::Stale { .. } | ReplicaError::State { .. }) => {
                Ok(None)
            }
            Err(error) => self.damaged(node, info, error).map(|()| None),
        }
    }

    /// What cannot be read is told like any other damage, and stays where it is.
    fn damaged(&self, node: &Node, info: &ReplicaInfo, error: ReplicaError) -> Result<()> {
        if !is_damage(&error) {
            return Err(error);
        }
        tracing::warn!(block = %info.identity.block, %error, "a replica that was to move is damaged");
        self.ordered.update(|report| report.failed_count += 1);
        node.copier.found_bad(node.now(), report(info));
        node.changes.came.notify_one();
        Ok(())
    }

    fn fetch(&self, node: &Node, from: usize, info: &ReplicaInfo) -> Result<Option<Small>> {
        let Some(reader) = self.open(node, from, info)? else { return Ok(None) };
        let (mut data, mut sums) = (vec![0; info.len as usize], Vec::new());
        match piece(&reader, 0, &mut data, &mut sums) {
            Ok(()) => Ok(Some(Small { info: *info, identity: reader.identity(), data, sums })),
            Err(error) => self.damaged(node, info, error).map(|()| None),
        }
    }

    /// Puts small replicas on the other disk with one sync, and removes them here.
    fn put_batch(&self, node: &Node, from: usize, to: usize, batch: Vec<Small>) -> Result<usize> {
        let target = &node.disks.disks()[to].volume;
        let put = |small: &Small| target.find(small.identity.block).map(|there| there.is_none());
        // What is there already is a double that is not settled yet.
        let mut fresh = Vec::new();
        for small in batch {
            if put(&small)? {
                fresh.push(small);
            }
        }
        let puts: Vec<SmallPut<'_>> = fresh
            .iter()
            .map(|small| SmallPut { identity: small.identity, data: &small.data, sums: &small.sums })
            .collect();
        let mut moved = 0;
        for (small, outcome) in fresh.iter().zip(target.put_batch(&puts, true)) {
            match outcome {
                Ok(()) => moved += usize::from(self.change_over(node, from, to, &small.info)?),
                Err(error) if error.advice() == Advice::WriteElsewhere => return Err(error),
                Err(error) => tracing::debug!(block = %small.identity.block, %error, "a replica does not move"),
            }
        }
        Ok(moved)
    }

    /// Copies a long replica to the other disk, and removes it here.
    fn copy(&self, node: &Node, from: usize, to: usize, info: &ReplicaInfo, number: u64) -> Result<bool> {
        let Some(reader) = self.open(node, from, info)? else { return Ok(false) };
        let target = &node.disks.disks()[to].volume;
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
                return self.damaged(node, info, error).map(|()| false);
            }
            writer.write(at, bytes, &sums)?;
            at += bytes.len() as u64;
            if self.standing(node, number).is_none() {
                return Ok(false);
            }
        }
        writer.put_synced(info.len)?;
        self.change_over(node, from, to, info)
    }

    fn change_over(&self, node: &Node, from: usize, to: usize, info: &ReplicaInfo) -> Result<bool> {
        let moved = node.disks.change_over(from, to, info);
        self.ordered.update(|report| match &moved {
            Ok(true) => {
                report.done_count += 1;
                report.done_len += info.len;
            }
            Ok(false) => {}
            Err(_) => report.failed_count += 1,
        });
        moved
    }
}

impl Disks {
    /// Asks the disks now how full they are: much may have moved since they were looked at last.
    fn look_again(&self) {
        for disk in self.inner.disks.iter().filter(|disk| disk.is_sound()) {
            let _a_disk_that_failed_is_out = disk.look(&self.inner.clock);
        }
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
