//! Room for a new replica among those of the same block: which of them are in its way, and which of them go.

use crate::error::{ReplicaError, Result};
use crate::inner::{Inner, lock};
use crate::replica::Identity;
use types::Generation;

/// Which replicas of the same block a new one may take the place of. One that was finalized stays until the new one is
/// put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// None. What is put whole has an id of its own, and who may put it may not replace what has one.
    First,
    /// Those of earlier generations: they are stale.
    Newer,
    /// Also one of the same generation: it is damaged.
    Equal,
}

impl Inner {
    /// A recovery shuts out writers up to its generation. A copy of that very generation is what it came to: where this
    /// node could not take part in its end, since its own replica is damaged, that copy is what repairs it.
    pub(crate) fn check_fence(&self, identity: Identity, is_copy: bool) -> Result<()> {
        let (block, new) = (identity.block, identity.generation);
        let shut_out = |by: &&Generation| **by > new || **by == new && !is_copy;
        match lock(&self.recovering).get(&block).filter(shut_out) {
            Some(by) => Err(ReplicaError::Fenced { block, by: *by }),
            None => Ok(()),
        }
    }

    /// Open replicas that may go do so; another is in the way. Finalized ones stay until the new one is put. The caller
    /// holds the stripe, and has asked [`Self::check_fence`].
    pub(crate) fn make_room(&self, identity: Identity, room: Room) -> Result<()> {
        let (block, new) = (identity.block, identity.generation);
        let goes = |have| match room {
            Room::First => false,
            Room::Newer => have < new,
            Room::Equal => have <= new,
        };
        let free = |have| if goes(have) { Ok(()) } else { Err(ReplicaError::Exists { block, have }) };
        if let Some(open) = self.find_open(block) {
            let state = open.state();
            free(state.identity.generation)?;
            if room == Room::Equal && open.info().has_writer {
                return Err(ReplicaError::Exists { block, have: state.identity.generation });
            }
            open.fence(new);
            if !open.is_gone() {
                self.discard(&open)?;
            }
        }
        self.index.replica(block)?.map_or(Ok(()), |row| free(row.generation))
    }
}
