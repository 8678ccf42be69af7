//! Files that cannot be joined.

use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcatFault {
    NoSources,
    /// Two sources are the same file.
    Repeated,
    TargetOpen(FsPath),
    OtherDirectory {
        source: FsPath,
        target: FsPath,
    },
    SourceIsTarget {
        source: FsPath,
        target: FsPath,
    },
    /// A source is open, or empty.
    OpenOrEmpty {
        source: FsPath,
    },
    /// The blocks of a source may be longer than those of the target.
    BlockLen {
        source: FsPath,
        len: u64,
        len_max: u64,
    },
}
