//! Lengths that writers named, by block and by age.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId};

/// A length that a writer claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) home: ContainerId,
    /// The length that it should have by that.
    pub(crate) len: u64,
    /// How much of that was not counted before, and is not confirmed.
    pub(crate) grown: u64,
    /// When it was made, or last asked for.
    pub(crate) since: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) by_block: BTreeMap<BlockId, Claim>,
    pub(crate) by_age: BTreeSet<(Duration, BlockId)>,
}

impl Claims {
    pub(crate) fn insert(&mut self, block: BlockId, claim: Claim) {
        self.by_age.insert((claim.since, block));
        self.by_block.insert(block, claim);
    }

    pub(crate) fn remove(&mut self, block: BlockId) -> Option<Claim> {
        let claim = self.by_block.remove(&block)?;
        self.by_age.remove(&(claim.since, block));
        Some(claim)
    }
}
