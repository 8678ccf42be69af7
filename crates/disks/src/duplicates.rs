//! Blocks that two disks have when a node starts: which of the two counts.

use crate::disk::Disk;
use crate::index::Index;
use container::ReplicaInfo;
use types::{BlockId, ReplicaState};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 10_000;

/// A replica that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub(crate) disk: usize,
    pub(crate) block: BlockId,
}

/// Notes where every block is. Answers what is there twice.
pub(crate) fn fill(index: &Index, disks: &[Disk]) -> Vec<Duplicate> {
    let mut duplicates = Vec::new();
    for (at, disk) in disks.iter().enumerate() {
        let mut from = BlockId(0);
        loop {
            let infos = match disk.volume().replicas(from, STEP_COUNT) {
                Ok(infos) => infos,
                Err(error) => {
                    disk.volume().declare_failed(format!("what is there cannot be listed: {error}"));
                    break;
                }
            };
            for info in &infos {
                let block = info.identity.block;
                match index.get(block) {
                    None => index.set(block, at),
                    Some(other) => {
                        let known = disks[other].volume().find(block).ok().flatten();
                        let better = known.is_none_or(|known| rank(&known) < rank(info));
                        let (counts, duplicate) = if better { (at, other) } else { (other, at) };
                        index.set(block, counts);
                        duplicates.push(Duplicate { disk: duplicate, block });
                    }
                }
            }
            match infos.last().and_then(|last| last.identity.block.0.checked_add(1)) {
                Some(next) if infos.len() == STEP_COUNT => from = BlockId(next),
                _ => break,
            }
        }
    }
    duplicates
}

pub(crate) fn rank(info: &ReplicaInfo) -> (u64, bool, u64) {
    (info.identity.generation.0, info.state == ReplicaState::Finalized, info.len)
}
