//! What a fetch is called between machine and shell.

/// Names a fetch in the calls that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);
