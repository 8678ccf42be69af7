//! What was decided, and why: for `levada explain read`.

use std::fmt;
use std::sync::Arc;

/// Why bytes are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The program reads them now.
    Demand,
    /// A profile names them, at the opening.
    Profile,
    /// Files of such a name are opened so.
    Name,
    /// They are of the columns in use, in the entries that follow.
    Columns,
    /// The program reads one piece behind the other.
    Sequential,
    /// The program reads in equal steps.
    Strided,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Demand => "read now",
            Self::Profile => "named by the profile",
            Self::Name => "as files of this name are opened",
            Self::Columns => "next entries of the columns in use",
            Self::Sequential => "behind what is read",
            Self::Strided => "in equal steps",
        })
    }
}

/// Tables and columns go by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The file is open. A cache that was set is enlarged where it is smaller than what the link has on its way.
    Opened {
        set_len: u64,
        cache_len: u64,
        stake_len: u64,
    },
    /// The columns of a profile are taken as learned.
    ProfileTaken {
        table: Arc<str>,
        column_count: usize,
    },
    /// The learning phase of a table ended.
    Learned {
        table: Arc<str>,
        column_count: usize,
        reads: u32,
        entries: u64,
    },
    /// A column came to those of a table whose learning phase was over.
    ColumnAdded {
        column: Arc<str>,
    },
    /// It is read for some entries only, and not fetched ahead any more.
    ColumnSparse {
        column: Arc<str>,
        taken: u32,
        skipped: u32,
    },
    /// A sparse column is read for each entry again.
    ColumnDense {
        column: Arc<str>,
    },
    /// Others were read on and it was not: what is held of it may be dropped.
    ColumnIdle {
        column: Arc<str>,
    },
    /// Only the first bytes of its pieces are read.
    HeadsOnly {
        column: Arc<str>,
        len: u32,
    },
    /// A second reader, or a jump: entries are followed from here as well.
    LaneOpened {
        entry: u64,
    },
    /// Entries that were read are read again.
    Rewound {
        entry: u64,
    },
    /// A pattern of offsets was seen.
    PatternSeen {
        why: Why,
        offset: u64,
        step: i64,
    },
    /// What a plan was for does not happen; what it fetched may be dropped.
    PatternEnded {
        why: Why,
        offset: u64,
    },
    /// Too much was fetched in vain; until more is read, only what is read is fetched.
    BudgetSpent {
        waste_len: u64,
        used_len: u64,
    },
    BudgetBack {
        waste_len: u64,
        used_len: u64,
    },
    /// Fetches fail: nothing is fetched ahead until one succeeds.
    Paused {
        failures: u32,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { set_len, cache_len, stake_len } if set_len == cache_len => {
                write!(out, "cache of {cache_len} bytes; a guess may cost {stake_len}")
            }
            Self::Opened { set_len, cache_len, stake_len } => write!(
                out,
                "cache enlarged from {set_len} to {cache_len} bytes, since a round trip is long; a guess may cost \
                 {stake_len}"
            ),
            Self::ProfileTaken { table, column_count } => {
                write!(out, "table '{table}': {column_count} columns known from the profile, nothing to learn")
            }
            Self::Learned { table, column_count, reads, entries } => {
                write!(out, "table '{table}': learned {column_count} columns by {reads} reads over {entries} entries")
            }
            Self::ColumnAdded { column } => write!(out, "column '{column}' came later"),
            Self::ColumnSparse { column, taken, skipped } => {
                let total = taken + skipped;
                write!(out, "column '{column}': {taken} of {total} pieces were read; fetched on demand from here on")
            }
            Self::ColumnDense { column } => write!(out, "column '{column}': each piece is read again; fetched ahead"),
            Self::ColumnIdle { column } => write!(out, "column '{column}': not read any more; may be dropped"),
            Self::HeadsOnly { column, len } => {
                write!(out, "column '{column}': only the first {len} bytes of its pieces are read")
            }
            Self::LaneOpened { entry } => write!(out, "a reader is followed from entry {entry} on"),
            Self::Rewound { entry } => write!(out, "went back to entry {entry}"),
            Self::PatternSeen { why, offset, step } => write!(out, "{why}, from {offset} on, step {step}"),
            Self::PatternEnded { why, offset } => write!(out, "no longer {why}, since {offset}"),
            Self::BudgetSpent { waste_len, used_len } => {
                write!(
                    out,
                    "{waste_len} bytes in vain or not read so far, {used_len} read: nothing more is fetched ahead"
                )
            }
            Self::BudgetBack { waste_len, used_len } => {
                write!(out, "{waste_len} bytes in vain or not read so far, {used_len} read: fetching ahead again")
            }
            Self::Paused { failures } => write!(out, "{failures} fetches failed: nothing is fetched ahead"),
        }
    }
}
