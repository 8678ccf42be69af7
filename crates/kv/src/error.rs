//! What can go wrong.

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
        "a row of table {table} does not match its checksum; the disk returned other bytes than were written; stop \
         this process, and restore the store from a copy"
    )]
    Damaged { table: u8 },
    #[error("{dir} is damaged: {reason}; the disk returned other bytes than were written, so restore it from a copy")]
    Unsound { dir: PathBuf, reason: String },
    #[error("{op} in {dir}: {source}")]
    Io { op: &'static str, dir: PathBuf, source: std::io::Error },
    #[error(
        "the rows that came from another store cannot be used: {reason}; if they were kept, as in a backup, they may \
         be damaged: take another copy; else run the same version on both sides, and try again"
    )]
    Foreign { reason: String },
    #[error("{op} in {dir}: {reason}")]
    Lmdb { op: &'static str, dir: PathBuf, reason: String },
}

impl KvError {
    /// As pure code sees it.
    pub(crate) fn into_rows(self, op: &'static str) -> types::rows::RowsError {
        types::rows::RowsError { op, reason: self.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_from_elsewhere_may_be_damaged_or_of_another_version() {
        let text = KvError::Foreign { reason: "a row is out of order".into() }.to_string();
        assert!(text.contains("take another copy") && text.contains("the same version"), "{text}");
    }
}
