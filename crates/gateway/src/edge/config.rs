//! What an edge may take, and how it is shared out.

use super::kept::{QueueLimits, UNWRITTEN_LEN_MAX};
use client::Options;
use edge::{EXTENT_COST, Limits};
use std::path::PathBuf;

/// What an edge may take.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// Where pieces outlive the process. `None`: they are in memory alone.
    pub cache_dir: Option<PathBuf>,
    /// Bytes on the disk.
    pub cache_len: u64,
    /// Bytes of memory, for all of it.
    pub memory: u64,
}

/// What the memory is for, in parts of 32: pieces, those that wait for the disk, those that are fetched and who waits
/// for that, the index of the disk with openings, layouts, and reading ahead. Guesses, but that a window of 32 MiB is
/// to fit the last part of 128.
const MEMORY_PARTS: u64 = 32;
const PIECES_PARTS: u64 = 8;
const UNWRITTEN_PARTS: u64 = 4;
const FETCHING_PARTS: u64 = 2;
const WAITING_PARTS: u64 = 1;
const INDEX_PARTS: u64 = 5;
const LAYOUT_PARTS: u64 = 4;
pub(super) const AHEAD_PARTS: u64 = 8;
const PARTS: [u64; 7] =
    [PIECES_PARTS, UNWRITTEN_PARTS, FETCHING_PARTS, WAITING_PARTS, INDEX_PARTS, LAYOUT_PARTS, AHEAD_PARTS];
const _: () = {
    let (mut sum, mut at) = (0, 0);
    while at < PARTS.len() {
        sum += PARTS[at];
        at += 1;
    }
    assert!(sum == MEMORY_PARTS);
};
/// Of the part of the index, for openings that are remembered for when the link is down: with 1 GB some 19 000 of usual
/// paths.
const MEMORY_PER_OPENINGS: u64 = 64;
const _: () = assert!(MEMORY_PARTS / INDEX_PARTS < MEMORY_PER_OPENINGS);
/// Bytes of a segment: what goes from the disk goes by so much, and each holds a file open.
const SEGMENT_LEN_MIN: u64 = 2 << 20;
const SEGMENT_COUNT: u64 = 256;

impl EdgeConfig {
    pub(super) fn limits(&self) -> Limits {
        let disk_len = if self.cache_dir.is_some() { self.cache_len } else { 0 };
        Limits {
            memory_len: self.part(PIECES_PARTS),
            disk_len,
            segment_len: (disk_len / SEGMENT_COUNT).max(SEGMENT_LEN_MIN).min(disk_len),
            disk_extent_count: ((self.part(INDEX_PARTS) - self.openings_len()) / EXTENT_COST) as usize,
        }
    }

    pub(super) fn queue_limits(&self) -> QueueLimits {
        QueueLimits {
            fetching_len: self.part(FETCHING_PARTS),
            waiting_len: self.part(WAITING_PARTS),
            unwritten_len: self.part(UNWRITTEN_PARTS).min(UNWRITTEN_LEN_MAX),
        }
    }

    pub(super) fn openings_len(&self) -> u64 {
        self.memory / MEMORY_PER_OPENINGS
    }

    pub(super) fn part(&self, parts: u64) -> u64 {
        self.memory / MEMORY_PARTS * parts
    }

    /// What its client does differently.
    pub(crate) fn options(&self, options: Options) -> Options {
        let profile_dir = self.cache_dir.as_ref().map(|dir| dir.join("profiles"));
        Options { profile_dir, layout_memory: self.part(LAYOUT_PARTS), ..options }
    }
}
