//! The replicas of this node: where they are, which are written, damaged or ordered away, and what the metadata server
//! is to hear of that.
//!
//! Promise: what is put, deleted, left behind or found damaged is told with one of the next heartbeats.

use crate::changes::Changes;
use crate::damage::Damage;
use crate::deletions::Deletions;
use container::{ReplicaError, ReplicaInfo};
use disks::Disks;
use io::{Clock, SystemClock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{BlockId, Millis, ReplicaState};
use wire::node::Replica;

#[derive(Debug)]
pub(crate) struct Replicas {
    pub(crate) disks: Disks,
    pub(crate) changes: Arc<Changes>,
    pub(crate) damage: Damage,
    /// Ordered away, and not deleted yet.
    pub(crate) deletions: Deletions,
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
    pub(crate) fn new(disks: Disks, clock: SystemClock) -> Self {
        Self {
            changes: Arc::default(),
            damage: Damage::default(),
            deletions: Deletions::new(disks.disks().len()),
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
    pub(crate) fn left_open(&self, block: BlockId) -> Option<Replica> {
        let info = self.disks.find(block).ok()??;
        let left = info.state == ReplicaState::Open && !info.has_writer && !self.is_writing(block);
        left.then(|| report(&info))
    }

    /// A replica is whole: the metadata server is to hear of it soon.
    pub(crate) fn was_put(&self, block: BlockId) {
        match self.disks.find(block) {
            Ok(Some(info)) => self.changes.put(report(&info)),
            Ok(None) => {} // deleted meanwhile
            Err(error) => tracing::error!(%block, %error, "a replica that was just put is not found"),
        }
    }

    /// A chain broke off and left its replica open.
    pub(crate) fn was_left(&self, block: BlockId) {
        self.changes.left(block, self.now());
    }

    /// A replica was found damaged: the metadata server is to hear of it soon.
    pub(crate) fn found_damaged(&self, info: &ReplicaInfo) {
        self.damage.found(self.now(), report(info));
        self.changes.report_soon();
    }

    /// It is ordered away: it is deleted beside the heartbeats, from each disk that may have it.
    pub(crate) fn order_away(&self, block: BlockId, generation_at_most: types::Generation) {
        for at in self.disks.to_delete_from(block) {
            self.deletions.order(at, block, generation_at_most);
        }
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
                    self.damage.forget(block);
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

/// A replica as the metadata server is told of it.
pub(crate) fn report(info: &ReplicaInfo) -> Replica {
    Replica {
        block: info.identity.block.0,
        generation: info.identity.generation.0,
        len: info.len,
        file: info.identity.file.0,
        home: info.identity.home.0,
        state: info.state.into(),
    }
}
