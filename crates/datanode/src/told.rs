//! What one heartbeat told the metadata server that leads, until it is known whether that server heard it.

use crate::changes::Batch;
use types::BlockId;
use wire::node::Replica;

#[must_use = "if it was not heard, it is to be told again"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub(crate) batch: Batch,
    pub(crate) bad: Vec<Replica>,
}

impl Told {
    /// Blocks that a broken chain left long enough ago. Those that are open still are to be told.
    pub fn left(&self) -> &[BlockId] {
        &self.batch.left
    }
}
