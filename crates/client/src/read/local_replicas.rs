//! The replicas on this machine that one reader of a file has open.

use crate::local_replica::LocalReplica;
use crate::located::{Located, Node};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{BlockId, Generation};

/// Blocks whose files one reader has open: two descriptors each. A guess.
const BLOCK_COUNT_MAX: usize = 16;

/// They are closed with the reader, so what was deleted meanwhile takes no
/// space any longer.
#[derive(Debug, Default)]
pub(super) struct LocalReplicas {
    /// Those used last come last.
    known: Mutex<Vec<Known>>,
    /// Many may read at once, and one asks.
    pub(super) asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    block: BlockId,
    generation: Generation,
    /// `None`: it is read over TCP.
    pub(super) replica: Option<(Node, Arc<LocalReplica>)>,
}

impl LocalReplicas {
    fn known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, block: &Located) -> Option<Known> {
        let mut known = self.known();
        let place = known.iter().position(|known| known.is_of(block))?;
        let found = known.remove(place);
        known.push(found.clone());
        Some(found)
    }

    pub(super) fn set(&self, block: &Located, replica: Option<(Node, Arc<LocalReplica>)>) {
        let mut known = self.known();
        known.retain(|known| !known.is_of(block));
        if known.len() >= BLOCK_COUNT_MAX {
            known.remove(0);
        }
        known.push(Known { block: block.identity.block, generation: block.identity.generation, replica });
    }
}

impl Known {
    fn is_of(&self, block: &Located) -> bool {
        (self.block, self.generation) == (block.identity.block, block.identity.generation)
    }
}
