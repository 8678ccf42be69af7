//! A backup of the rows, and what one that was restored did not know.

pub use crate::proto::BlockToken;
pub use crate::proto::{
    BackupPieceRequest, BackupPieceResponse, BeginBackupRequest, BeginBackupResponse, FoundBlock, FoundReplica,
    ListFoundResponse, RecoverFoundRequest, RecoverFoundResponse, ReleaseFoundRequest, ReleaseFoundResponse,
};

pub const BEGIN_BACKUP: &str = "beginBackup";
pub const BACKUP_PIECE: &str = "backupPiece";
pub const LIST_FOUND: &str = "listFound";
pub const RECOVER_FOUND: &str = "recoverFound";
/// Servers of a version before have `releaseFound`, which asks for no count: they are to refuse this one, not to
/// release what nobody has seen.
pub const RELEASE_FOUND: &str = "releaseListed";

/// Bytes of a piece, about: a row is never divided.
pub const PIECE_LEN: usize = 1 << 20;

impl FoundReplica {
    /// Which of two has what was written last. A generation rises with each recovery and each append: a whole replica
    /// of an older one lacks what was acknowledged since.
    pub fn rank(&self) -> (u64, bool, u64) {
        (self.generation, self.finalized, self.len)
    }
}

impl FoundBlock {
    /// The replica that stands for the block: it is listed, saved, and compared with what was saved. The block is whole
    /// if this one is finalized; else it is recovered first.
    pub fn best(&self) -> Option<&FoundReplica> {
        // Nothing that was sent under its generation can be beyond a replica that was put. If something is, the block
        // was opened again under the same generation, as some clients do, and this datanode was not there.
        let is_old = |put: &FoundReplica| {
            let beyond = |other: &FoundReplica| other.generation == put.generation && other.len > put.len;
            put.finalized && self.replicas.iter().any(beyond)
        };
        self.replicas.iter().filter(|replica| !is_old(replica)).max_by_key(|replica| replica.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_generation_stands_for_a_block() {
        let replica =
            |generation, finalized, len| FoundReplica { generation, finalized, len, ..FoundReplica::default() };
        let best = |replicas: &[FoundReplica]| {
            let found = FoundBlock { replicas: replicas.to_vec(), ..FoundBlock::default() };
            found.best().map(FoundReplica::rank)
        };
        let (stale, flushed) = (replica(1001, true, 100), replica(1002, false, 500));
        assert_eq!(best(&[stale.clone(), flushed.clone()]), Some((1002, false, 500)));
        assert_eq!(best(&[flushed.clone(), replica(1002, true, 500), stale]), Some((1002, true, 500)));
        assert_eq!(best(&[replica(1002, false, 200), flushed.clone()]), Some((1002, false, 500)));
        // What was put, and opened again under the same generation elsewhere, does not make the block whole.
        assert_eq!(best(&[replica(1002, true, 400), flushed]), Some((1002, false, 500)));
        assert_eq!(best(&[replica(1002, true, 400), replica(1002, false, 300)]), Some((1002, true, 400)));
        assert_eq!(best(&[replica(1002, true, 400), replica(1002, true, 500)]), Some((1002, true, 500)));
        assert_eq!(best(&[]), None);
    }
}
