//! Limits of the namespace that no other crate needs to agree on.

use std::time::Duration;
use types::limits::PATH_DEPTH_MAX;

/// Blocks of one file. HDFS stops at 10,000 (`dfs.namenode.fs-limits.max-blocks-per-file`); ten times that still fits
/// one answer of some 30 MB, which is what clients that ask for all blocks at once will get.
pub const BLOCK_COUNT_MAX: u32 = 100_000;
/// Blocks that one request may take from files or give to others. As many as a file of HDFS has at most; they take some
/// tens of milliseconds, in which all other changes wait.
pub const BLOCKS_CHANGED_MAX: u32 = 10_000;
/// Levels of a tree, the root excluded. By moving deep trees below each other anybody can make one deeper than a path
/// reaches, as in HDFS. Twice as deep, a tree that was made by its path can be moved to any path; and who writes to a
/// file at its end changes as many counts above, which takes 10 to 20 ms, in which all other changes wait.
pub const TREE_DEPTH_MAX: usize = 2 * PATH_DEPTH_MAX;
/// Bytes of a lease holder's name, so that its rows' keys fit LMDB. HDFS clients send about 50.
pub const HOLDER_LEN_MAX: usize = 400;
/// Ids of files that one request may reserve. What the leader does not use is lost with it; ids are 64 bits.
pub const RESERVED_COUNT_MAX: u32 = 65_536;
/// How long the outcome of a call that must not run twice is kept: HDFS's `dfs.namenode.retrycache.expirytime.millis`.
pub const RETRY_KEPT: Duration = Duration::from_secs(600);
/// Expired outcomes dropped by each applied request. Above 1, so that the table shrinks after a burst.
pub(crate) const RETRY_PURGED_PER_APPLY: usize = 4;

const _: () = assert!(1 + HOLDER_LEN_MAX + 1 + 8 <= 511, "LMDB's longest key, with the table's byte");
const _: () = assert!(1 + 8 + types::limits::NAME_LEN_MAX <= 511, "that of an entry in a directory");
