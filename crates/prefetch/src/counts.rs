//! How much was read and asked for so far.

/// Of one file, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub read_len: u64,
    /// Reads of which all was held.
    pub hits: u64,
    /// Reads of which all was held or on its way.
    pub waits: u64,
    pub fetches: u64,
    pub ranges: u64,
}
