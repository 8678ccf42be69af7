//! What an edge counts: read at a scrape.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Bytes that readers got from memory, from the disk, and from upstream.
    pub(crate) memory_len: Count,
    pub(crate) disk_len: Count,
    pub(crate) store_len: Count,
    /// Pieces on the disk that were not what had been written.
    pub(crate) damaged_count: Count,
    /// Segments that went for others.
    pub(crate) evicted_count: Count,
    /// Openings that the store answered, that were answered without it, and that could not be.
    pub(crate) validated_count: Count,
    pub(crate) unvalidated_count: Count,
    pub(crate) refused_count: Count,
    /// Fetches for which there was no room to wait, and pieces that the disk was too slow for.
    pub(crate) turned_away_count: Count,
    pub(crate) unwritten_count: Count,
    /// Times that the link went down.
    pub(crate) lost_count: Count,
    /// Bytes that were fetched from upstream: what readers asked for, and what was read ahead.
    pub(crate) fetched_len: Count,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
