//! Blocks that two disks have when a node starts: a crash in the middle of a move, or a disk that was away while the
//! node got another copy.
//!
//! Promise: the one of the higher generation counts, of those the finalized and the longer one; the other is deleted
//! only after the one that counts was read against its checksums.

use super::Disk;
use super::index::Index;
use crate::node::Node;
use container::ReplicaInfo;
use std::sync::{Arc, PoisonError};
use types::{BlockId, ReplicaState};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 10_000;

/// A replica that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Double {
    pub(super) disk: usize,
    pub(super) block: BlockId,
}

/// Notes where every block is. Answers what is there twice.
pub(super) fn fill(index: &Index, disks: &[Disk]) -> Vec<Double> {
    let mut doubles = Vec::new();
    for (at, disk) in disks.iter().enumerate() {
        let mut from = BlockId(0);
        loop {
            let infos = match disk.volume.replicas(from, STEP_COUNT) {
                Ok(infos) => infos,
                Err(error) => {
                    disk.volume.give_up(format!("what is there cannot be listed: {error}"));
                    break;
                }
            };
            for info in &infos {
                let block = info.identity.block;
                match index.get(block) {
                    None => index.set(block, at),
                    Some(other) => {
                        let known = disks[other].volume.find(block).ok().flatten();
                        let better = known.is_none_or(|known| rank(&known) < rank(info));
                        let (counts, double) = if better { (at, other) } else { (other, at) };
                        index.set(block, counts);
                        doubles.push(Double { disk: double, block });
                    }
                }
            }
            match infos.last().and_then(|last| last.identity.block.0.checked_add(1)) {
                Some(next) if infos.len() == STEP_COUNT => from = BlockId(next),
                _ => break,
            }
        }
    }
    doubles
}

fn rank(info: &ReplicaInfo) -> (u64, bool, u64) {
    (info.identity.generation.0, info.state == ReplicaState::Finalized, info.len)
}

/// Deletes what does not count, one after the other; ends when there is no more.
pub(crate) async fn run(node: Arc<Node>) {
    let doubles = std::mem::take(&mut *node.disks.inner.doubles.lock().unwrap_or_else(PoisonError::into_inner));
    if doubles.is_empty() {
        return;
    }
    tracing::info!(count = doubles.len(), "blocks are on two disks of this node; one copy of each goes");
    for double in doubles {
        let at = Arc::clone(&node);
        // It may wait for either of the two.
        let settled = node.disks.for_all(move |_| settle(&at, double)).await;
        if let Err(error) = settled {
            tracing::warn!(block = %double.block, %error, "the second copy of a block stays until the next start");
        }
    }
}

fn settle(node: &Node, double: Double) {
    let Double { disk, block } = double;
    let disks = &node.disks;
    let Some(counts) = disks.place(block).filter(|counts| *counts != disk) else { return };
    let of = |at: usize| &disks.inner.disks[at].volume;
    if disks.is_out(counts) || disks.is_out(disk) {
        return;
    }
    let (Ok(Some(kept)), Ok(Some(other))) = (of(counts).find(block), of(disk).find(block)) else { return };
    if kept.state != ReplicaState::Finalized {
        return; // a recovery decides first; the next start looks again
    }
    let kept_reads = of(counts).verify(block);
    let claim = disks.claim(block);
    if super::enter(&claim, disk).is_err() || disks.place(block) != Some(counts) {
        return;
    }
    let goes = match kept_reads {
        Ok(_) => disk,
        Err(error) if rank(&other) == rank(&kept) && of(disk).verify(block).is_ok() => {
            tracing::warn!(%block, %error, "of two copies one is damaged; the other one counts");
            disks.note(block, disk);
            counts
        }
        Err(error) => {
            tracing::warn!(%block, %error, "of two copies none is sound; both stay");
            return;
        }
    };
    let generation = if goes == disk { other } else { kept }.identity.generation;
    if let Err(error) = of(goes).delete(block, generation) {
        tracing::warn!(%block, %error, "the second copy of a block could not be deleted");
    }
}
