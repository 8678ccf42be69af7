//! A pipeline, as the leader knows it.

use blocks::PipelineRow;
use std::collections::BTreeSet;
use types::ContainerId;

/// A set of nodes, and where its new blocks go.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub row: PipelineRow,
    pub(crate) containers: BTreeSet<ContainerId>,
    /// Containers that take new blocks; the last one is used. A pipeline has one as a rule: the more blocks share a
    /// container, the more of them share its pack and its syncs.
    pub(crate) open: Vec<ContainerId>,
    /// Something was placed here by this process, so its ids are kept at hand.
    pub(crate) in_use: bool,
    /// Bytes of all its containers, about: a sum that a wrong claim about one of them cannot overflow.
    pub(crate) len: u128,
    /// Containers of which some joining member lacks blocks.
    pub(crate) lagging_count: u64,
}

impl Pipeline {
    /// Bytes of all its containers, about.
    pub fn len_about(&self) -> u64 {
        u64::try_from(self.len).unwrap_or(u64::MAX)
    }
}
