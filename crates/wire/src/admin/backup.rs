//! A backup of the rows, and what one that was restored did not know.

pub use crate::proto::{
    BackupPieceRequest, BackupPieceResponse, BeginBackupRequest, BeginBackupResponse, FoundBlock, FoundReplica,
    ListFoundResponse,
};

pub const BEGIN_BACKUP: &str = "beginBackup";
pub const BACKUP_PIECE: &str = "backupPiece";
pub const LIST_FOUND: &str = "listFound";

/// Bytes of a piece, about: a row is never divided.
pub const PIECE_LEN: usize = 1 << 20;
