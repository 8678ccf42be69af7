//! A table of the file, as far as it was read: its columns in use, and whether they are known by now.

use crate::index::ColumnId;
use crate::mark::Mark;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) is_learned: bool,
    pub(crate) reads: u32,
    /// Reads since a new column came.
    pub(crate) reads_same: u32,
    pub(crate) read_at: u64,
    pub(crate) entry_first: u64,
    pub(crate) entry_last: u64,
    pub(crate) marks: Vec<(ColumnId, Mark)>,
    pub(crate) by_column: BTreeMap<ColumnId, usize>,
    /// How far it was read.
    pub(crate) entry_end: u64,
    /// How far earlier runs read it; `u64::MAX`: it is not known.
    pub(crate) extent_end: u64,
}

/// What was seen of a table in this run.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) table: u32,
    pub(crate) columns: Vec<(u32, u32)>,
    /// Of 1,000 entries, how many were read.
    pub(crate) extent_permille: u32,
}
