//! The replicas of this node: where they are, which are written, damaged or ordered away, and what the metadata server
//! is to hear of that.
//!
//! Promise: what is put, deleted, left behind or found damaged is told with one of the next heartbeats.

use crate::node_lock::NodeLock;
use container::{Identity, ReplicaError, ReplicaInfo};
use datanode::Held;
use disks::Disks;
use io::{Clock, SystemClock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{BlockId, Generation, Millis};

#[derive(Debug)]
pub(crate) struct Replicas {
    pub(crate) disks: Disks,
    /// What is to be reported of them, and what is ordered.
    pub(crate) node: Arc<NodeLock>,
    /// Blocks that streams are writing, and how many streams: two for a moment, when a writer comes back.
    writing: Mutex<HashMap<BlockId, usize>>,
    clock: SystemClock,
}

/// A block is being written for as long as this is there.
#[derive(Debug)]
pub(crate) struct Writing {
    replicas: Arc<Replicas>,
    block: BlockId,
}

impl Replicas {
    /// `server_count`: metadata servers that the configuration names.
    pub(crate) fn new(disks: Disks, server_count: usize, clock: SystemClock) -> Self {
        Self {
            node: Arc::new(NodeLock::new(disks.disks().len(), server_count)),
            disks,
            writing: Mutex::default(),
            clock,
        }
    }

    /// Time since the node started, for limits.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// What the machine's clock says, for what outlives the process.
    pub(crate) fn wall(&self) -> Millis {
        self.clock.now()
    }

    pub(crate) fn writing(self: &Arc<Self>, block: BlockId) -> Writing {
        *self.lock_writing().entry(block).or_insert(0) += 1;
        Writing { replicas: Arc::clone(self), block }
    }

    pub(crate) fn is_writing(&self, block: BlockId) -> bool {
        self.lock_writing().contains_key(&block)
    }

    fn lock_writing(&self) -> MutexGuard<'_, HashMap<BlockId, usize>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica of a broken chain, unless it was taken up since.
    pub(crate) fn left_open(&self, block: BlockId) -> Option<Held> {
        let held = held(&self.disks.find(block).ok()??);
        held.is_left_open(self.is_writing(block)).then_some(held)
    }

    /// A replica is whole: the metadata server is to hear of it soon.
    pub(crate) fn was_put(&self, block: BlockId) {
        match self.disks.find(block) {
            Ok(Some(info)) => self.node.with(|node| node.was_put(&held(&info))),
            Ok(None) => {} // deleted meanwhile
            Err(error) => tracing::error!(%block, %error, "a replica that was just put is not found"),
        }
    }

    /// A chain broke off and left its replica open.
    pub(crate) fn was_left(&self, block: BlockId) {
        self.node.with(|node| node.was_left(self.now(), block));
    }

    /// A replica was found damaged: the metadata server is to hear of it soon.
    pub(crate) fn found_damaged(&self, info: &ReplicaInfo) {
        self.node.with(|node| node.found_damaged(self.now(), &held(info)));
    }

    /// Whether a replica of this generation is to be deleted, or just is.
    pub(crate) fn is_ordered_away(&self, block: BlockId, generation: Generation) -> bool {
        self.node.with(|node| node.deletions.is_ordered(block, generation))
    }

    /// Reads a replica from end to end, if it is there; a damaged one is told to the metadata server.
    pub(crate) fn verify(&self, block: BlockId) -> Result<(), ReplicaError> {
        let Some(info) = self.disks.find(block)? else { return Err(ReplicaError::NotFound { block }) };
        let mut outcome = self.disks.verify(block);
        if matches!(outcome, Err(ReplicaError::Io { .. })) {
            // It may have been deleted, or moved, just while it was read.
            outcome = self.disks.verify(block);
        }
        match outcome {
            Err(error) if error.is_damage() => {
                tracing::warn!(%block, %error, "a replica of this node is damaged");
                self.found_damaged(&info);
                Err(error)
            }
            outcome => {
                if outcome.is_ok() {
                    self.node.with(|node| node.reads_well(block));
                }
                outcome.map(drop)
            }
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut writing = self.replicas.lock_writing();
        if let Some(count) = writing.get_mut(&self.block) {
            *count -= 1;
            if *count == 0 {
                writing.remove(&self.block);
            }
        }
    }
}

/// A replica as [`datanode::Datanode`] knows it.
pub(crate) fn held(info: &ReplicaInfo) -> Held {
    let Identity { block, generation, file, home, .. } = info.identity;
    Held { block, generation, len: info.len, file, home, state: info.state, has_writer: info.has_writer }
}
