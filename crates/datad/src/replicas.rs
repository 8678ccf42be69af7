//! The replicas of this node: where they are, which are written, damaged or ordered away, and what the metadata server
//! is to hear of that.
//!
//! Promise: what is put, deleted, left behind or found damaged is told with one of the next heartbeats.

use crate::copies::Copies;
use crate::node_lock::NodeLock;
use crate::slots::Slots;
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
    /// What clients on this machine hold of them.
    pub(crate) slots: Arc<Slots>,
    pub(crate) copies: Copies,
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
            slots: Arc::default(),
            copies: Copies::default(),
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
        self.changed(block);
        if let Some(held) = self.held(block) {
            self.node.with(|node| node.was_put(&held));
        }
    }

    /// A replica was deleted: the metadata server is to hear of it soon.
    pub(crate) fn was_deleted(&self, block: BlockId) {
        self.changed(block);
        self.node.with(|node| node.was_deleted(block));
    }

    /// A replica is no longer what it was, or not for long: clients that hold it are to ask anew.
    pub(crate) fn changed(&self, block: BlockId) {
        self.slots.revoke(block);
        self.copies.revoke(block);
    }

    /// A replica is younger than what was ordered deleted: whoever gave the order is to hear of it.
    pub(crate) fn was_kept(&self, block: BlockId) {
        if let Some(held) = self.held(block) {
            self.node.with(|node| node.was_kept(self.now(), &held));
        }
    }

    /// What is to be told of a replica; `None`: it was deleted meanwhile, or its disk does not say.
    fn held(&self, block: BlockId) -> Option<Held> {
        let found = self.disks.find(block);
        let found = found.inspect_err(|error| tracing::error!(%block, %error, "what became of a replica is not known"));
        Some(held(&found.ok()??))
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
        let find = || self.disks.find(block)?.ok_or(ReplicaError::NotFound { block });
        match read_settled(find, || self.disks.verify(block).map(drop))? {
            (info, Err(error)) => {
                tracing::warn!(%block, %error, "a replica of this node is damaged");
                self.found_damaged(&info);
                Err(error)
            }
            (_, Ok(())) => {
                self.node.with(|node| node.reads_well(block));
                Ok(())
            }
        }
    }
}

/// Looks a replica up and reads it: whether it is good, or which one is damaged. It may be replaced, moved or deleted
/// while it is read, and then nothing is known of the one that was looked up: what does not read well is looked up and
/// read once more.
fn read_settled<T>(
    find: impl Fn() -> Result<T, ReplicaError>,
    read: impl Fn() -> Result<(), ReplicaError>,
) -> Result<(T, Result<(), ReplicaError>), ReplicaError> {
    let first = (find()?, read());
    let (info, read) = match first {
        (_, Err(error)) if error.is_damage() || matches!(error, ReplicaError::Io { .. }) => (find()?, read()),
        settled => settled,
    };
    match read {
        Err(error) if !error.is_damage() => Err(error),
        told => Ok((info, told)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const BLOCK: BlockId = BlockId(7);

    /// Looks up generation 1, then 2; reads what `read` says of the first and of the second time.
    fn read_of(read: [Option<ReplicaError>; 2]) -> Result<(u64, Result<(), ReplicaError>), ReplicaError> {
        let (found, mut read) = (Cell::new(0), read.map(|error| error.map_or(Ok(()), Err)).into_iter());
        let read = std::cell::RefCell::new(&mut read);
        let find = || {
            found.set(found.get() + 1);
            Ok(found.get())
        };
        read_settled(find, || read.borrow_mut().next().expect("it is read twice at most"))
    }

    fn damage() -> Option<ReplicaError> {
        Some(ReplicaError::Corrupt { block: BLOCK, offset: 0 })
    }

    /// The record of the former one was read, and the file of the one that took its place.
    #[test]
    fn a_replica_that_was_just_replaced_is_not_called_damaged() {
        assert!(matches!(read_of([damage(), None]), Ok((2, Ok(())))));
    }

    #[test]
    fn damage_is_told_of_the_replica_that_was_read_last() {
        assert!(matches!(read_of([damage(), damage()]), Ok((2, Err(error))) if error.is_damage()));
        assert!(matches!(read_of([None, None]), Ok((1, Ok(())))));
    }

    #[test]
    fn a_replica_that_went_meanwhile_is_not_damaged() {
        let gone = || Some(ReplicaError::NotFound { block: BLOCK });
        assert!(matches!(read_of([damage(), gone()]), Err(ReplicaError::NotFound { .. })));
        assert!(matches!(read_of([gone(), None]), Err(ReplicaError::NotFound { .. })));
    }
}
