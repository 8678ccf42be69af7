//! Rows on disk: LMDB below, and an overlay of changes that are not synced yet above it.
//!
//! ```text
//!   change ──commit──▶ active ──flush──▶ frozen ──one transaction, fsync──▶ LMDB
//!                        └───────────────┴────────── a view reads all three ──┘
//! ```
//!
//! Memory is layers of rows whose copies share what they have in common (`tree`): a view has a copy of its moment and
//! no lock, so it waits for no commit, flush or page that another view needs, and none of these wait for it.
//!
//! Promise: a committed [`Change`] is seen by every later [`View`], all of it or nothing; after a crash the store is
//! what it was at the end of some flush, never between two. Nothing is durable before a flush: whoever needs that keeps
//! a log, and a row that says how far the store contains it (docs/adr/0003). LMDB is always synced, and each value on
//! disk carries a CRC-32C of key and value, since LMDB has no checksums of its own. A store up to some size is read
//! whole when it is opened, so that a row which damage hides is not taken for an absent one.

mod change;
mod change_guard;
#[doc(hidden)]
pub mod cold;
mod disk;
mod export;
#[doc(hidden)]
pub mod fuzz;
mod import;
mod layer;
mod merge;
mod pages;
mod row;
mod store;
mod tree;
mod view;

pub use change::{Change, KEY_LEN_MAX};
pub use export::Export;
pub use import::Import;
pub use store::{Options, Store};
pub use view::View;

use std::path::PathBuf;

/// Why the store cannot go on. Rows that were not flushed stay in memory and are tried again.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    #[error("{dir} is in use by another process; stop it first, or choose another directory")]
    InUse { dir: PathBuf },
    #[error("{op} in {dir}: no space left on the disk; free some, then start again")]
    NoSpace { op: &'static str, dir: PathBuf },
    #[error("the store is full: its map holds {map_len} bytes at most; delete files, or start with a larger map")]
    Full { map_len: usize },
    #[error(
        "{dir} was written by another version of this program (format {found:?}); start that version, or begin \
         with an empty directory"
    )]
    Format { dir: PathBuf, found: Vec<u8> },
    #[error(
        "a row of table {table} does not match its checksum; the disk returned other bytes than were written; stop this \
         process, and restore the store from a copy"
    )]
    Damaged { table: u8 },
    #[error("{dir} is damaged: {reason}; the disk returned other bytes than were written, so restore it from a copy")]
    Unsound { dir: PathBuf, reason: String },
    #[error("{op} in {dir}: {source}")]
    Io { op: &'static str, dir: PathBuf, source: std::io::Error },
    #[error(
        "the rows that came from another store cannot be used: {reason}; run the same version on both \
         sides, and try again"
    )]
    Foreign { reason: String },
    #[error("{op} in {dir}: {reason}")]
    Lmdb { op: &'static str, dir: PathBuf, reason: String },
}

impl KvError {
    /// As pure code sees it.
    fn into_rows(self, op: &'static str) -> types::rows::RowsError {
        types::rows::RowsError { op, reason: self.to_string() }
    }
}
