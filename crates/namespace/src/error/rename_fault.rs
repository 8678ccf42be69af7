//! Renames that cannot be.

use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameFault {
    SourceIsRoot,
    TargetIsRoot,
    TargetBelowSource {
        from: FsPath,
        to: FsPath,
    },
    /// One is a file, the other a directory.
    KindsDiffer {
        from: FsPath,
        to: FsPath,
    },
    TargetNotEmpty(FsPath),
    /// It is not the version of the file that was to be replaced, or there is none.
    OtherTarget(FsPath),
}
