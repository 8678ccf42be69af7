//! Parts of what a reader asks for, and where they come from.

use bytes::Bytes;
use std::ops::Range;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub segment: u64,
    /// From the beginning of the segment's bytes.
    pub at: u64,
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPart {
    /// Where the extent begins in its file.
    pub begin: u64,
    pub place: Place,
    pub extent_len: u32,
    /// Bytes of the extent before the part.
    pub skip: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<F> {
    Memory(Bytes),
    Disk(DiskPart),
    /// It is on its way; the handle is that of who asked for it.
    Flight(F),
}

/// A part of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<F> {
    pub range: Range<u64>,
    pub source: Source<F>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlightId(pub(super) u64);
