//! What is measured: calls that clients make most, one kind at a time.

use clap::ValueEnum;

/// In the order in which a round makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Call {
    /// Make a directory
    Mkdir,
    /// Create an empty file and complete it: two calls
    Create,
    /// The status of a file
    Stat,
    /// Where the blocks of a file are
    Open,
    /// A block for a file that was just created
    Addblock,
    /// Rename a file within its directory
    Rename,
    /// Delete a file
    Delete,
    /// List a directory of 1,000 files
    List,
}

/// Of the directory that is listed: a page of HDFS.
pub(super) const ENTRY_COUNT: u64 = 1000;
/// A call that changes nothing takes so little time that a measurement needs more of them.
const READS_PER_CHANGE: u64 = 10;
/// A listing of a thousand entries takes longer than a change.
const CHANGES_PER_LISTING: u64 = 10;

impl Call {
    pub(super) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mkdir => "mkdir",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Open => "open",
            Self::Addblock => "addblock",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }

    /// True if each is an entry of the metadata server's log.
    pub(super) fn is_change(self) -> bool {
        !matches!(self, Self::Stat | Self::Open | Self::List)
    }

    /// How many make one measurement where there are `count` changes in one.
    pub(super) fn repeated(self, count: u64) -> u64 {
        match self {
            Self::Stat | Self::Open => count * READS_PER_CHANGE,
            Self::List => (count / CHANGES_PER_LISTING).max(1),
            _ => count,
        }
    }
}
