//! Recovery of a block whose writer is gone: fence, agree on a length, finalize.
//!
//! The metadata server draws a new generation, asks every node to [`Volume::begin_recovery`] under it, decides on the
//! length that all share, and tells every node to [`Volume::finish_recovery`]. Between the two the replica is read as
//! before, but written by nobody.

use crate::error::{ReplicaError, Result};
use crate::header::Stage;
use crate::inner::{Inner, lock};
use crate::replica::{Identity, ReplicaInfo};
use crate::volume::Volume;
use types::{BlockId, Generation, ReplicaState};

impl Volume {
    /// Stops the writer of a replica for good and says what there is. A replica that was found at start is verified
    /// now. Asking again, or under a higher generation, is fine; under a lower one it is refused.
    pub fn begin_recovery(&self, block: BlockId, recovery: Generation) -> Result<ReplicaInfo> {
        let inner = self.inner();
        inner.health.check()?;
        let _stripe = inner.stripe(block);
        inner.check_recovery(block, recovery)?;
        if let Some(replica) = inner.find_open(block) {
            if replica.info().state == ReplicaState::Copying {
                return Err(ReplicaError::NotFound { block });
            }
            inner.check_newer(block, replica.state().identity.generation, recovery)?;
            replica.fence(recovery);
            let mut disk = replica.lock_disk();
            if !replica.is_gone() {
                inner.note(inner.spread(&replica, &mut disk).and_then(|()| replica.settle(&mut disk)))?;
                lock(&inner.recovering).insert(block, recovery);
                return Ok(replica.info());
            }
        }
        let row = inner.index.replica(block)?.ok_or(ReplicaError::NotFound { block })?;
        inner.check_newer(block, row.generation, recovery)?;
        lock(&inner.recovering).insert(block, recovery);
        Ok(row.info(block))
    }

    /// Cuts the replica to `len` bytes and finalizes it under the recovery's generation. Done twice, it is done once.
    pub fn finish_recovery(&self, block: BlockId, recovery: Generation, len: u64) -> Result<()> {
        let inner = self.inner();
        inner.health.check()?;
        let _stripe = inner.stripe(block);
        inner.check_recovery(block, recovery)?;
        let replica = match inner.find_open(block) {
            Some(replica) => {
                if replica.info().state == ReplicaState::Copying {
                    return Err(ReplicaError::NotFound { block });
                }
                // Before anybody is fenced: a late recovery must not stop the writer that overtook it.
                let have = replica.state().identity.generation;
                if have > recovery {
                    return Err(ReplicaError::Stale { block, have, want: recovery });
                }
                replica.fence(recovery);
                Some(replica).filter(|replica| !replica.is_gone())
            }
            None => None,
        };
        let replica = match replica {
            Some(replica) => replica,
            None => {
                let row = inner.index.replica(block)?.ok_or(ReplicaError::NotFound { block })?;
                if row.generation == recovery && row.len == len {
                    lock(&inner.recovering).remove(&block);
                    return Ok(());
                }
                inner.check_newer(block, row.generation, recovery)?;
                inner.check_len(block, row.len, len)?;
                // Under its generation: with the new one it would be taken for what it is to become, at its old length.
                inner.note(inner.unfinalize(block, &row, row.generation))?
            }
        };
        let mut disk = replica.lock_disk();
        inner.note(inner.spread(&replica, &mut disk).and_then(|()| replica.settle(&mut disk)))?;
        let state = replica.state();
        inner.check_len(block, state.len, len)?;
        inner.note(replica.cut(&mut disk, len))?;
        if len < state.len {
            // Before the generation: after a loss of power what was cut off must not be seen under the new one.
            inner.note(inner.meters.sync(|| replica.sync()))?;
        }
        let identity = Identity { generation: recovery, ..state.identity };
        inner.note(replica.set_identity(identity, Stage::Open))?;
        let state = replica.state();
        inner.put_locked(&replica, &mut disk, &state, len)?;
        lock(&inner.recovering).remove(&block);
        Ok(())
    }
}

impl Inner {
    /// A recovery of a higher generation has overtaken this one.
    fn check_recovery(&self, block: BlockId, recovery: Generation) -> Result<()> {
        match lock(&self.recovering).get(&block) {
            Some(by) if *by > recovery => Err(ReplicaError::Fenced { block, by: *by }),
            _ => Ok(()),
        }
    }

    fn check_newer(&self, block: BlockId, have: Generation, recovery: Generation) -> Result<()> {
        if have < recovery { Ok(()) } else { Err(ReplicaError::Stale { block, have, want: recovery }) }
    }

    fn check_len(&self, block: BlockId, have: u64, want: u64) -> Result<()> {
        if want <= have {
            return Ok(());
        }
        Err(ReplicaError::Length { block, have, need: format!("{want} to be recovered") })
    }
}
