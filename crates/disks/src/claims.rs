//! One at a time for each block: who decides on which disk a replica is, or changes it.
//!
//! ```text
//! take ──▶ enter (disk) … work there … ──▶ enter (the next) … ──▶ conclude: what follows for the index ──▶ dropped
//!   └ waits for who has it, unless that one waits for a disk that was given up: then its claim is void
//! ```
//!
//! Promise: an operation that returns after its disk was given up has no visible effect.

use container::ReplicaError;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::BlockId;

/// How often one that waits looks whether a disk was declared failed.
const LOOK_EACH: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Claims {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: HashMap<BlockId, Holder>,
    /// Counts claims, so that a void one is told from the one after it.
    count: u64,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    /// The disk it works on.
    at: Option<usize>,
}

/// Nobody else changes where the block is until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    block: BlockId,
    number: u64,
}

/// The disk this claim's holder worked on was given up, and others may have gone on since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Void;

impl Claims {
    /// Waits for whoever has the same block; others never meet, so a slow disk holds up its own blocks alone.
    pub(crate) fn take(&self, block: BlockId, is_declared_failed: impl Fn(usize) -> bool) -> Claim<'_> {
        let mut state = self.lock();
        while let Some(holder) = state.taken.get(&block)
            && !holder.at.is_some_and(&is_declared_failed)
        {
            let waited = self.freed.wait_timeout(state, LOOK_EACH);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.count += 1;
        let number = state.count;
        let before = state.taken.insert(block, Holder { number, at: None });
        assert!(
            before.is_none_or(|before| before.number < number && before.at.is_some_and(is_declared_failed)),
            "one at a time"
        );
        Claim { claims: self, block, number }
    }

    /// The disk that the holder of a block's claim works on.
    pub(crate) fn disk_of(&self, block: BlockId) -> Option<usize> {
        self.lock().taken.get(&block)?.at
    }

    /// Claims are told from each other, and name disks that there are.
    pub(crate) fn check(&self, disk_count: usize) {
        let state = self.lock();
        let mut numbers: Vec<u64> = state.taken.values().map(|holder| holder.number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "two claims with one number");
        assert!(numbers.last().is_none_or(|last| *last <= state.count), "a claim that was not counted");
        assert!(state.taken.values().filter_map(|holder| holder.at).all(|at| at < disk_count), "a disk that is not");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// From here on its holder may wait for this disk.
    pub(crate) fn enter(&self, disk: usize) -> Result<(), Void> {
        self.with(|holder| holder.at = Some(disk))
    }

    /// Does what follows for others, unless the claim has become void. `change` takes no claim.
    pub(crate) fn conclude(&self, change: impl FnOnce()) -> Result<(), Void> {
        self.with(|_| change())
    }

    fn with(&self, change: impl FnOnce(&mut Holder)) -> Result<(), Void> {
        let mut state = self.claims.lock();
        let holder = state.taken.get_mut(&self.block).filter(|holder| holder.number == self.number);
        holder.map(change).ok_or(Void)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.lock();
        if state.taken.get(&self.block).is_some_and(|holder| holder.number == self.number) {
            state.taken.remove(&self.block);
        }
        drop(state);
        self.claims.freed.notify_all();
    }
}

/// From here on the claim's holder may wait for this disk.
pub(crate) fn enter(claim: &Option<Claim<'_>>, at: usize) -> Result<(), ReplicaError> {
    claim.as_ref().map_or(Ok(()), |claim| claim.enter(at)).map_err(|_void| ReplicaError::Hangs)
}

/// Does what follows for others, unless the disk was given up that the claim's holder waited for.
pub(crate) fn conclude(claim: &Option<Claim<'_>>, change: impl FnOnce()) -> Result<(), ReplicaError> {
    match claim {
        Some(claim) => claim.conclude(change).map_err(|_void| ReplicaError::Hangs),
        None => {
            change();
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_in_a_disk_that_was_given_up_holds_nobody_up() {
        let claims = Claims::default();
        let (block, never) = (BlockId(7), |_| false);
        let hangs = claims.take(block, never);
        hangs.enter(1).unwrap();
        assert_eq!(claims.disk_of(block), Some(1));
        drop(claims.take(BlockId(8), never));
        let next = claims.take(block, |disk| disk == 1);
        next.enter(0).unwrap();
        // It comes back.
        assert_eq!((hangs.enter(2), hangs.conclude(|| unreachable!())), (Err(Void), Err(Void)));
        drop(hangs);
        assert_eq!(claims.disk_of(block), Some(0), "the claim after it stands");
        let mut done = false;
        next.conclude(|| done = true).unwrap();
        assert!(done);
        drop(next);
        assert_eq!(claims.disk_of(block), None);
    }

    #[test]
    fn others_wait_for_who_is_at_work() {
        let claims = Claims::default();
        let held = claims.take(BlockId(7), |_| false);
        held.enter(1).unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let _claim = claims.take(BlockId(7), |disk| disk == 0);
                order.lock().unwrap().push("second");
            });
            order.lock().unwrap().push("first");
            drop(held);
            waits.join().unwrap();
        });
        assert_eq!(order.into_inner().unwrap(), ["first", "second"]);
    }
}
