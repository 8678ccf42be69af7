//! Access profiles: what was learned of a data set, so that the next run has nothing to learn.
//!
//! ```text
//!   name      SHA-256 over the data set's name and the names of tables and columns, the first 16 bytes
//!   content   tables ── columns: which, how far into their pieces, runs since they were read last; how far runs came
//!             opening ─ spans that are read first: headers, footers
//!             patterns  of offsets, where no layout is known
//! ```
//!
//! Promise: decoding bytes from outside takes memory by their number, which is limited; whatever a profile says, it can
//! only cause fetches that the limits of a machine allow. Tables and columns are numbers: the name holds their names.

mod name;

pub use name::ProfileName;

use crate::reach::{PAST_LEN_MAX, Reach};
use crate::streams::{PATTERN_COUNT_MAX, Pattern};
use crate::table::Observed;
use std::collections::{BTreeMap, BTreeSet};
use types::encoding::{self, DecodeError};
use types::record;

/// What the run before last read is still fetched at an opening; older ones wait whether they come back.
pub(crate) const AGE_USED_MAX: u32 = 1;
/// A thousand columns take some 5 KB.
pub const PROFILE_LEN_MAX: usize = 64 << 10;
pub const TABLE_COUNT_MAX: usize = 64;
pub const COLUMN_COUNT_MAX: usize = 8192;
/// Headers, footers, indexes: files of ROOT take five reads before the first basket.
pub const OPENING_COUNT_MAX: usize = 16;
/// A longer read is none of headers. The talk's tree header has 3 MB.
pub const OPENING_LEN_MAX: u64 = 4 << 20;
/// A run that reads less than this part of the known columns is news: the others are to age.
const PARTS_SHARED: usize = 2;
/// After so many, what comes now and then is known. A guess: two runs decide what a header is.
const RUNS_SETTLED: u32 = 4;
/// What was not read for so many runs is forgotten.
pub const AGE_MAX: u32 = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// In the order of their numbers.
    pub tables: Vec<TableProfile>,
    pub opening: Vec<OpeningRead>,
    pub patterns: Vec<PatternProfile>,
    /// How many runs went into it.
    pub runs: u32,
    /// Bytes of the columns that the last run read of one file, as far as it read it.
    pub columns_len: u64,
}
record!(Profile { 0: runs, 1: tables, 2: opening, 3: patterns, 4: columns_len });

/// What can be asked for with the opening of a file, by a store that knows where its columns lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstWindow {
    /// Table and column, by their numbers.
    pub columns: Vec<(u32, u32)>,
    /// Bytes of them that will be read.
    pub len: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProfile {
    pub table: u32,
    /// In the order of their numbers.
    pub columns: Vec<ColumnProfile>,
    /// Of 1,000 entries, how many were read; the most of all runs that count.
    pub extent_permille: u32,
}
record!(TableProfile { 0: table, 1: extent_permille, 2: columns });

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ColumnProfile {
    pub column: u32,
    /// Bytes of each piece that are read; 0: all.
    pub head_len: u32,
    /// Runs since it was read last.
    pub age: u32,
    /// Bytes from the beginning of a piece on that are read, where that is past its end.
    pub past_len: Option<u32>,
}
record!(ColumnProfile { 0: column, 1: head_len, 2: age, 3: past_len });

impl ColumnProfile {
    fn of(column: u32, reach: Reach) -> Self {
        let Reach { within, past } = reach;
        Self {
            column,
            head_len: if within == u32::MAX { 0 } else { within },
            age: 0,
            past_len: Some(past).filter(|past| *past > 0),
        }
    }

    fn reach(&self) -> Reach {
        Reach { within: if self.head_len == 0 { u32::MAX } else { self.head_len }, past: self.past_len.unwrap_or(0) }
    }
}

/// A read of what is no column, before or between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpeningRead {
    /// The offset is counted from the end of the file.
    pub from_end: bool,
    pub offset: u64,
    pub len: u64,
    pub age: u32,
    /// In how many runs it was seen.
    pub seen: u32,
}
record!(OpeningRead { 0: from_end, 1: offset, 2: len, 3: age, 4: seen });

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatternProfile {
    pub offset: u64,
    /// From one read to the next; 0: they follow each other directly. Below 0, as the number of the same bits.
    pub step: u64,
    pub len: u64,
    pub steps: u32,
    pub age: u32,
}
record!(PatternProfile { 0: offset, 1: step, 2: len, 3: steps, 4: age });

/// Why bytes are no profile. The reader goes on without one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("a profile of {len} bytes; {PROFILE_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("not a profile")]
    Malformed(#[from] DecodeError),
    #[error("a profile with {what}")]
    Impossible { what: &'static str },
}

impl Profile {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.opening.is_empty() && self.patterns.is_empty()
    }

    /// What one run has read.
    pub(crate) fn of_run(tables: &[Observed], opening: &[OpeningRead], patterns: &[Pattern]) -> Self {
        let table = |table: &Observed| TableProfile {
            table: table.table,
            columns: table.columns.iter().map(|(column, reach)| ColumnProfile::of(*column, *reach)).collect(),
            extent_permille: table.extent_permille,
        };
        let pattern = |pattern: &Pattern| PatternProfile {
            offset: pattern.offset,
            step: pattern.step.cast_unsigned(),
            len: pattern.len,
            steps: pattern.steps,
            age: 0,
        };
        let mut profile = Self {
            tables: tables.iter().map(table).collect(),
            opening: opening.to_vec(),
            patterns: patterns.iter().map(pattern).collect(),
            runs: 1,
            columns_len: tables.iter().map(|table| table.len).fold(0, u64::saturating_add),
        };
        profile.bound();
        profile
    }

    /// The tables and columns to begin with.
    pub(crate) fn known(&self) -> Vec<Observed> {
        let known = |table: &TableProfile| {
            let recent = table.columns.iter().filter(|column| column.age <= AGE_USED_MAX);
            Observed {
                table: table.table,
                columns: recent.map(|column| (column.column, column.reach())).collect(),
                extent_permille: table.extent_permille,
                len: 0,
            }
        };
        self.tables.iter().map(known).collect()
    }

    /// The columns that the last runs read, from their first entries on. `None`: there are none, or only beginnings of
    /// their pieces were read, or more than these.
    pub fn first_window(&self) -> Option<FirstWindow> {
        let known = self.known();
        let columns =
            || known.iter().flat_map(|of| of.columns.iter().map(|(column, reach)| (of.table, *column, *reach)));
        let is_whole =
            self.columns_len > 0 && columns().next().is_some() && columns().all(|(.., reach)| reach.is_whole());
        let window = || FirstWindow {
            columns: columns().map(|(table, column, _)| (table, column)).collect(),
            len: self.columns_len,
        };
        is_whole.then(window)
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = Pattern> {
        let recent = self.patterns.iter().filter(|pattern| pattern.age <= AGE_USED_MAX);
        recent.map(|pattern| Pattern {
            offset: pattern.offset,
            step: pattern.step.cast_signed(),
            len: pattern.len,
            steps: pattern.steps,
        })
    }

    /// Shorter than [`PROFILE_LEN_MAX`]; columns beyond that are left out, those read longest ago first.
    pub fn encode(&self) -> Vec<u8> {
        let mut shorter = self.clone();
        shorter.bound();
        let mut bytes = encoding::encode(&shorter, Vec::new());
        while bytes.len() > PROFILE_LEN_MAX {
            let longest = shorter.tables.iter_mut().max_by_key(|table| table.columns.len());
            let Some(table) = longest.filter(|table| !table.columns.is_empty()) else { return Vec::new() };
            table.columns.sort_by_key(|column| (column.age, column.column));
            table.columns.truncate(table.columns.len() / 2);
            table.columns.sort_unstable();
            bytes = encoding::encode(&shorter, Vec::new());
        }
        bytes
    }

    /// Fields that a newer program added are skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        if bytes.len() > PROFILE_LEN_MAX {
            return Err(ProfileError::TooLong { len: bytes.len() });
        }
        let profile: Self = encoding::decode_known(bytes)?;
        let columns = || profile.tables.iter().flat_map(|table| &table.columns);
        let ages = columns().map(|column| column.age);
        let ages = ages.chain(profile.opening.iter().map(|read| read.age));
        let mut ages = ages.chain(profile.patterns.iter().map(|pattern| pattern.age));
        let what = if profile.tables.len() > TABLE_COUNT_MAX || columns().count() > COLUMN_COUNT_MAX {
            "too many columns"
        } else if profile.opening.len() > OPENING_COUNT_MAX || profile.patterns.len() > PATTERN_COUNT_MAX {
            "too many reads"
        } else if !is_ascending(profile.tables.iter().map(|table| table.table))
            || profile.tables.iter().any(|table| !is_ascending(table.columns.iter().map(|column| column.column)))
        {
            "columns out of order"
        } else if profile.opening.iter().any(|read| read.len > OPENING_LEN_MAX) {
            "a read too long"
        } else if profile.tables.iter().any(|table| table.extent_permille > 1000)
            || columns().any(|column| u64::from(column.past_len.unwrap_or(0)) > PAST_LEN_MAX)
            || ages.any(|age| age > AGE_MAX)
        {
            "a number out of range"
        } else {
            return Ok(profile);
        };
        Err(ProfileError::Impossible { what })
    }

    /// Whether a run has read what this says, and not much less: then it is worth no word. What is no column counts
    /// while few runs went into this, since reads at random would be news for ever.
    pub fn says(&self, run: &Self) -> bool {
        let columns = |profile: &Self| -> BTreeSet<(u32, u32, Reach)> {
            let all = profile.tables.iter().flat_map(|table| table.columns.iter().map(|column| (table.table, *column)));
            let recent = all.filter(|(_, column)| column.age <= AGE_USED_MAX);
            recent.map(|(table, column)| (table, column.column, column.reach())).collect()
        };
        let extent =
            |table: u32| self.tables.iter().find(|known| known.table == table).map_or(0, |known| known.extent_permille);
        let is_known = |read: &OpeningRead| {
            let place = |read: &OpeningRead| (read.from_end, read.offset, read.len);
            self.opening.iter().any(|known| place(known) == place(read))
        };
        let is_followed = |pattern: &PatternProfile| {
            let place = |pattern: &PatternProfile| (pattern.offset, pattern.step, pattern.len);
            self.patterns.iter().any(|known| place(known) == place(pattern) && known.steps >= pattern.steps)
        };
        let (known, read) = (columns(self), columns(run));
        // Programs that take turns each read a part of what all of them do.
        known.is_superset(&read)
            && known.len() <= PARTS_SHARED * read.len()
            && run.tables.iter().all(|table| table.extent_permille <= extent(table.table))
            && (self.runs >= RUNS_SETTLED || run.opening.iter().all(is_known) && run.patterns.iter().all(is_followed))
    }

    /// This profile after one more run, which read what `run` says. What it did not read ages.
    #[must_use]
    pub fn after(&self, run: &Self) -> Self {
        let mut older = self.clone();
        if !run.tables.is_empty() {
            older.columns_len = 0;
        }
        let read_tables: Vec<u32> = run.tables.iter().map(|table| table.table).collect();
        for table in &mut older.tables {
            table.columns.iter_mut().for_each(|column| column.age += 1);
            // How far a table is read is what the last run that read it did.
            if read_tables.contains(&table.table) {
                table.extent_permille = 0;
            }
        }
        older.opening.iter_mut().for_each(|read| read.age += 1);
        older.patterns.iter_mut().for_each(|pattern| pattern.age += 1);
        older.merge(run)
    }

    /// What either of two says, as two clients of a store have learned it side by side.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let mut tables: BTreeMap<u32, TableProfile> = BTreeMap::new();
        for table in self.tables.iter().chain(&other.tables) {
            let merged =
                tables.entry(table.table).or_insert_with(|| TableProfile { table: table.table, ..Default::default() });
            merged.extent_permille = merged.extent_permille.max(table.extent_permille);
            merged.columns.extend_from_slice(&table.columns);
        }
        for table in tables.values_mut() {
            let mut columns: BTreeMap<u32, ColumnProfile> = BTreeMap::new();
            for column in &table.columns {
                let merged = columns.entry(column.column).or_insert(*column);
                // 0 is all of a piece, which is the most.
                let most = merged.head_len.wrapping_sub(1).max(column.head_len.wrapping_sub(1));
                (merged.age, merged.head_len) = (merged.age.min(column.age), most.wrapping_add(1));
                merged.past_len = merged.past_len.max(column.past_len);
            }
            table.columns = columns.into_values().collect();
        }
        let mut opening: BTreeMap<(bool, u64, u64), OpeningRead> = BTreeMap::new();
        for read in self.opening.iter().chain(&other.opening) {
            let place = (read.from_end, read.offset, read.len);
            let merged = opening.entry(place).or_insert(OpeningRead { seen: 0, ..*read });
            (merged.age, merged.seen) = (merged.age.min(read.age), merged.seen.saturating_add(read.seen));
        }
        let mut patterns: BTreeMap<(u64, u64, u64), (u32, u32)> = BTreeMap::new();
        for pattern in self.patterns.iter().chain(&other.patterns) {
            let PatternProfile { offset, step, len, steps, age } = *pattern;
            let merged = patterns.entry((offset, step, len)).or_insert((steps, age));
            *merged = (merged.0.max(steps), merged.1.min(age));
        }
        let patterns = patterns.into_iter().map(|((offset, step, len), (steps, age))| PatternProfile {
            offset,
            step,
            len,
            steps,
            age,
        });
        let mut merged = Self {
            tables: tables.into_values().collect(),
            opening: opening.into_values().collect(),
            patterns: patterns.collect(),
            runs: self.runs.saturating_add(other.runs),
            columns_len: self.columns_len.max(other.columns_len),
        };
        merged.bound();
        merged
    }

    /// Forgets what is too old, and the oldest of what is too much.
    fn bound(&mut self) {
        self.tables.truncate(TABLE_COUNT_MAX);
        let mut columns_left = COLUMN_COUNT_MAX;
        for table in &mut self.tables {
            table.columns.retain(|column| column.age <= AGE_MAX);
            table.columns.sort_by_key(|column| (column.age, column.column));
            table.columns.truncate(columns_left);
            columns_left -= table.columns.len();
            table.columns.sort_unstable();
        }
        self.tables.retain(|table| !table.columns.is_empty());
        self.opening.retain(|read| read.age <= AGE_MAX && read.len <= OPENING_LEN_MAX);
        self.opening.sort_by_key(|read| (read.age, u32::MAX - read.seen, *read));
        self.opening.truncate(OPENING_COUNT_MAX);
        self.patterns.retain(|pattern| pattern.age <= AGE_MAX);
        self.patterns.sort_by_key(|pattern| (pattern.age, u32::MAX - pattern.steps, *pattern));
        self.patterns.truncate(PATTERN_COUNT_MAX);
    }
}

fn is_ascending(mut numbers: impl Iterator<Item = u32>) -> bool {
    let mut before = None;
    numbers.all(|number| before.replace(number).is_none_or(|before| before < number))
}

#[cfg(test)]
mod tests;
