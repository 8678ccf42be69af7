//! Blocks that two disks have when a node starts: a crash in the middle of a move, or a disk that was away while the
//! node got another copy.
//!
//! Promise: the one of the higher generation counts, of those the finalized and the longer one; the other is deleted
//! only after the one that counts was read against its checksums.

use crate::claims::enter;
use crate::disks::Disks;
use crate::duplicates::{Duplicate, rank};
use types::ReplicaState;

/// Deletes what does not count, one after the other; ends when there is no more.
pub async fn resolve_duplicates(disks: Disks) {
    let duplicates = disks.take_duplicates();
    if duplicates.is_empty() {
        return;
    }
    tracing::info!(count = duplicates.len(), "blocks are on two disks of this node; one copy of each goes");
    for duplicate in duplicates {
        // It may wait for either of the two.
        let resolved = disks.for_all(move |disks| resolve(disks, duplicate)).await;
        if let Err(error) = resolved {
            tracing::warn!(block = %duplicate.block, %error, "the second copy of a block stays until the next start");
        }
    }
}

fn resolve(disks: &Disks, Duplicate { disk, block }: Duplicate) {
    let Some(counts) = disks.place(block).filter(|counts| *counts != disk) else { return };
    let of = |at: usize| disks.disks()[at].volume();
    if disks.is_failed(counts) || disks.is_failed(disk) {
        return;
    }
    let (Ok(Some(kept)), Ok(Some(other))) = (of(counts).find(block), of(disk).find(block)) else { return };
    if kept.state != ReplicaState::Finalized {
        return; // a recovery decides first; the next start looks again
    }
    let kept_reads = of(counts).verify(block);
    let claim = disks.claim(block);
    if enter(&claim, disk).is_err() || disks.place(block) != Some(counts) {
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
    disks.changed();
}
