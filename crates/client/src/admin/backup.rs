//! A backup of the metadata server's rows, piece by piece, and what one that was restored did not know.

use super::connection::Admin;
use crate::error::Result;
use wire::admin::backup::{
    BACKUP_PIECE, BEGIN_BACKUP, BackupPieceRequest, BackupPieceResponse, BeginBackupRequest, LIST_FOUND,
    ListFoundResponse, RECOVER_FOUND, RELEASE_FOUND, RecoverFoundRequest, RecoverFoundResponse, ReleaseFoundRequest,
    ReleaseFoundResponse,
};
use wire::admin::placement::PageRequest;

pub use wire::admin::backup::{BeginBackupResponse, FoundBlock, FoundReplica};

/// What blocks were found, a page of them.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPage {
    pub blocks: Vec<FoundBlock>,
    pub more: bool,
    /// Of all pages.
    pub count: u64,
    /// Replicas that the server had no room to list.
    pub passed_over: u64,
    /// Of the store: to read the blocks with.
    pub pool: String,
    /// Datanodes that have not reported all that they have; a hundred at most.
    pub unreported: Vec<String>,
    /// Of all.
    pub unreported_count: u64,
}

impl Admin {
    /// Begins a backup, of the store as it is now. Another one that is being taken ends.
    pub async fn begin_backup(&self) -> Result<BeginBackupResponse> {
        self.call(BEGIN_BACKUP, &BeginBackupRequest {}).await
    }

    /// A piece of it, counted from 0, one after the other. `None`: there are no more.
    pub async fn backup_piece(&self, id: u64, number: u64) -> Result<Option<Vec<u8>>> {
        let answer: BackupPieceResponse = self.call(BACKUP_PIECE, &BackupPieceRequest { id, number }).await?;
        Ok((!answer.piece.is_empty()).then(|| answer.piece.to_vec()))
    }

    /// Blocks that datanodes have and a restored backup did not know, behind the block `after`.
    pub async fn found_blocks(&self, after: u64) -> Result<FoundPage> {
        let answer: ListFoundResponse = self.call(LIST_FOUND, &PageRequest { after }).await?;
        let ListFoundResponse { blocks, more, count, passed_over, pool, unreported, unreported_count } = answer;
        Ok(FoundPage { blocks, more, count, passed_over, pool, unreported, unreported_count })
    }

    /// Has the replicas of a found block that nobody finished meet at one length, so that it can be read; answers the
    /// block as it is then. It is refused if a datanode does not answer, unless it is to be so by `force`: that may
    /// have more of it.
    pub async fn recover_found(&self, block: u64, force: bool) -> Result<FoundBlock> {
        let answer: RecoverFoundResponse = self.call(RECOVER_FOUND, &RecoverFoundRequest { block, force }).await?;
        Ok(answer.block.unwrap_or_default())
    }

    /// Has all found blocks deleted that no file has by now. It is refused if there are not `count`, as many as were
    /// listed; and if the list lacks some, unless it is to be so by `force`.
    pub async fn release_found(&self, count: u64, force: bool) -> Result<()> {
        let _: ReleaseFoundResponse = self.call(RELEASE_FOUND, &ReleaseFoundRequest { count, force }).await?;
        Ok(())
    }
}
