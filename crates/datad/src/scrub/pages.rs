//! What a scrub reads: pages of replicas, and each replica, within the quotas of threads of their disks.

use crate::rate_limit::PAUSE_MAX;
use crate::replicas::Replicas;
use container::{ReplicaError, ReplicaInfo};
use std::sync::Arc;
use types::{BlockId, ReplicaState};

/// Replicas looked up at a time.
pub(super) const STEP_COUNT: usize = 500;

/// What comes of work that may wait for a disk. `None`: a disk does not answer, or has just been given up; it is to be
/// tried again, and is then told from one that has failed.
pub(super) async fn patient<T>(done: Result<T, ReplicaError>) -> Result<Option<T>, ReplicaError> {
    match done {
        Err(ReplicaError::Hangs) => {
            tokio::time::sleep(PAUSE_MAX).await;
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// Some replicas. No thread waits for a disk that was given up.
pub(super) async fn page(replicas: &Replicas, from: BlockId) -> Result<Vec<ReplicaInfo>, ReplicaError> {
    replicas.disks.for_all(move |disks| disks.replicas(from, STEP_COUNT)).await?
}

/// Where the next page begins.
pub(super) fn after(infos: &[ReplicaInfo]) -> Option<BlockId> {
    let next = infos.last().and_then(|last| last.identity.block.0.checked_add(1));
    next.filter(|_| infos.len() == STEP_COUNT).map(BlockId)
}

pub(super) fn finalized(infos: &[ReplicaInfo]) -> impl Iterator<Item = &ReplicaInfo> {
    infos.iter().filter(|info| info.state == ReplicaState::Finalized)
}

/// Reads one replica. Damage is told.
pub(super) async fn verify(replicas: &Arc<Replicas>, block: BlockId) -> Result<(), ReplicaError> {
    let at = Arc::clone(replicas);
    replicas.disks.for_block(block, move |_| at.verify(block)).await?
}
