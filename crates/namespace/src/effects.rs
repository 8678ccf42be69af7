//! What follows from a request, beside its reply: what the leader looks after from then on.
//!
//! ```text
//! Request ──apply──▶ rows, a reply for the caller, Effects for the leader
//! ```
//!
//! Promise: an operation notes an effect where it changes the rows, so it follows from every request that is applied,
//! also when nobody waits for the reply any more. Effects are not replicated: a member that does not lead drops them. A
//! request that is refused, or a repeat that is answered from what is kept, has none.

use crate::limits::BLOCKS_CHANGED_MAX;
use crate::reply::Reply;
use crate::view::DoomedBlock;
use types::{BlockId, ContainerId};

/// What a request came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    pub reply: Reply,
    pub effects: Effects,
}

/// Empty for most requests; then nothing is allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A deleted tree waits to be freed.
    pub has_doomed_tree: bool,
    /// Replicas to be deleted, [`BLOCKS_CHANGED_MAX`] at most.
    pub doomed: Vec<DoomedBlock>,
    /// Blocks whose recorded length grew.
    pub written: Vec<Written>,
    /// Blocks to be compared if a node may lack them.
    pub doubts: Vec<Doubt>,
    /// A file waits for its blocks to get another number of replicas.
    pub has_resized: bool,
    /// Safe mode ended: what waited for that goes on.
    pub left_safe_mode: bool,
}

/// A writer named a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub block: BlockId,
    pub home: ContainerId,
    pub len: u64,
    /// How much of it is new in this container.
    pub grown: u64,
}

/// A block that some nodes of its home may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    pub block: BlockId,
    pub home: ContainerId,
    pub cause: DoubtCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtCause {
    /// Its writer is done with it: nodes that were away, or came while it was written, may lack it.
    Completed,
    /// It had been given out on lease: nodes that came since then never knew of it, and its writer may have said that
    /// some were late.
    Leased,
    /// It was cut by a recovery: nodes that took no part have another length.
    Recovered,
    /// It is in another home, chosen for the nodes of its chain, or as its file has another replication: others may
    /// have come there since.
    Moved,
}

impl Effects {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The recorded length of `block` in `home` rose from `before` to `len`.
    pub(crate) fn wrote(&mut self, block: BlockId, home: ContainerId, before: u64, len: u64) {
        let grown = len.saturating_sub(before);
        if grown > 0 {
            self.written.push(Written { block, home, len, grown });
        }
    }

    pub(crate) fn doubt(&mut self, block: BlockId, home: ContainerId, cause: DoubtCause) {
        self.doubts.push(Doubt { block, home, cause });
    }

    /// What one request may come to.
    pub(crate) fn check(&self) {
        assert!(self.doomed.len() <= BLOCKS_CHANGED_MAX as usize, "{} blocks are doomed at once", self.doomed.len());
        assert!(self.written.len() <= 1, "one request writes one block: {self:?}");
        assert!(self.doubts.len() <= 2 || self.written.is_empty(), "who writes moves no other blocks: {self:?}");
        assert!(self.written.iter().all(|written| written.grown <= written.len), "more than all is new: {self:?}");
    }
}
