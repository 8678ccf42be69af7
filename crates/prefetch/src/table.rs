//! A table of the file, as far as it was read: its columns in use, and whether they are known by now.

use crate::index::ColumnId;
use crate::mark::Mark;
use crate::reach::Reach;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) is_learned: bool,
    pub(crate) reads: u32,
    /// Reads since a new column came.
    pub(crate) reads_same: u32,
    pub(crate) read_at: u64,
    /// The last read of whole pieces, the column of the last of them, and how many entries those of that column have.
    pub(crate) whole: (u64, ColumnId, u64),
    pub(crate) entry_first: u64,
    pub(crate) entry_last: u64,
    pub(crate) marks: Vec<(ColumnId, Mark)>,
    pub(crate) by_column: BTreeMap<ColumnId, usize>,
    /// How far it was read.
    pub(crate) entry_end: u64,
    /// How far earlier runs read it; `u64::MAX`: it is not known.
    pub(crate) extent_end: u64,
}

impl Table {
    /// The read of this number has a piece of so many entries, whole.
    pub(crate) fn read_whole(&mut self, number: u64, column: ColumnId, entries: u64) {
        let (at, of, before) = self.whole;
        let before = if (at, of) == (number, column) { before } else { 0 };
        self.whole = (number, column, before.saturating_add(entries));
    }

    /// The entries of one column that a read has whole.
    pub(crate) fn whole_by(&self, number: u64) -> u64 {
        let (at, _, entries) = self.whole;
        if at == number { entries } else { 0 }
    }
}

/// What was seen of a table in this run.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) table: u32,
    pub(crate) columns: Vec<(u32, Reach)>,
    /// Bytes of their pieces as far as the table was read.
    pub(crate) len: u64,
    /// Of 1,000 entries, how many were read.
    pub(crate) extent_permille: u32,
}
