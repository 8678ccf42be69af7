//! Deletes replicas the metadata server ordered away, beside the heartbeats: thousands of large files take a disk
//! longer than a node may be silent.
//!
//! ```text
//! queue of a disk ([`datanode::Deletions`]) ──▶ a task for each disk ──▶ deleted within that disk's quota of threads
//! ```
//!
//! Promise: a disk that hangs holds up its own deletions alone. Those of one that was given up are dropped: what is
//! there has failed.

use crate::replicas::Replicas;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Generation};

/// Until a disk that does not answer is tried again.
const REST: Duration = Duration::from_secs(1);

/// Deletes from one disk until the task is dropped.
pub(crate) async fn run(replicas: Arc<Replicas>, number: usize) {
    let node = &replicas.node;
    loop {
        let batch = node.with(|node| node.deletions.take(number));
        if batch.is_empty() {
            node.deletions_due(number).await;
            continue;
        }
        let at = Arc::clone(&replicas);
        let done = replicas.disks.for_disk(number, move |_| delete(&at, number, batch)).await;
        match done {
            Ok(()) => node.with(|node| node.deletions.done(number)),
            Err(_hangs) if replicas.disks.failed_disks().contains(&number) => {
                node.with(|node| node.deletions.clear(number));
            }
            Err(_hangs) => {
                node.with(|node| node.deletions.give_back(number));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn delete(replicas: &Replicas, number: usize, batch: Vec<(BlockId, Generation)>) {
    for (block, generation_at_most) in batch {
        let places = replicas.disks.to_delete_from(block);
        if !places.contains(&number) {
            // It has moved since, or its disk has failed.
            let order = |at: &usize| replicas.node.with(|node| node.deletions.order(*at, block, generation_at_most));
            places.iter().for_each(order);
            continue;
        }
        match replicas.disks.delete_at(number, block, generation_at_most) {
            Ok(true) => replicas.was_deleted(block),
            Ok(false) => replicas.was_kept(block), // a younger one, or none
            Err(error) => tracing::error!(%block, %error, "a replica could not be deleted"),
        }
    }
}
