//! A container, as the leader knows it.

use blocks::{ContainerRow, ContainerState};
use std::ops::Range;
use types::mutation::{self, Mutation};
use types::{BlockId, Epoch, PipelineId};

#[derive(Clone, Debug)]
pub struct Container {
    pub pipeline: PipelineId,
    /// Of the pipeline when all members had all blocks.
    pub epoch: Epoch,
    pub state: ContainerState,
    /// Members that joined up to this epoch of the pipeline have reported all of the container.
    pub(crate) reported_epoch: Epoch,
    pub(crate) leased_index_count: u32,
    /// Of those: by leaders before this one.
    pub(crate) leased_index_count_before: u32,
    /// Bytes of its blocks, about.
    pub(crate) len: u64,
    /// Of those: bytes that no live node has. They cannot be copied, or a writer claimed bytes that it never wrote.
    pub(crate) missing_len: u64,
    /// Of the others: bytes that writers named, and that no node has confirmed yet.
    pub(crate) unconfirmed_len: u128,
    /// Indexes leased by this process and not given out yet.
    pub(crate) in_hand: Range<u32>,
    /// Indexes given out by this process, and the bytes written to them since: tells how long blocks are here.
    pub(crate) given_count: u64,
    pub(crate) written_len: u64,
}

impl Container {
    pub(crate) fn mirrored(row: &ContainerRow) -> Self {
        let leased_index_count = if mutation::is(Mutation::LeaseIndexesAgain) { 0 } else { row.leased_index_count };
        Self {
            pipeline: row.pipeline,
            epoch: row.epoch,
            state: row.state,
            reported_epoch: row.epoch,
            leased_index_count,
            leased_index_count_before: leased_index_count,
            len: row.len,
            missing_len: 0,
            unconfirmed_len: 0,
            in_hand: 0..0,
            given_count: 0,
            written_len: 0,
        }
    }

    /// Bytes of its blocks, about.
    pub fn len_about(&self) -> u64 {
        self.len
    }

    /// Bytes that its nodes have, which a new member would have to copy, about.
    pub(crate) fn held_len(&self) -> u64 {
        let held_len = u128::from(self.len.saturating_sub(self.missing_len)).saturating_sub(self.unconfirmed_len);
        u64::try_from(held_len).unwrap_or_default()
    }

    /// Block indexes given out.
    pub fn leased_index_count(&self) -> u32 {
        self.leased_index_count
    }

    /// Full containers are sealed. What is being written just then makes them a little longer than that.
    pub(crate) fn is_full(&self, len_max: u64) -> bool {
        self.held_len() >= len_max || self.in_hand.is_empty() && self.leased_index_count >= BlockId::INDEX_COUNT
    }
}
