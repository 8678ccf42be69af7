//! The server's side of a backup: rows of one moment, given out piece by piece, and what a restored one did not know.

use crate::backup_session::Taken;
use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Random};
use wire::admin::backup::{
    BackupPieceRequest, BackupPieceResponse, BeginBackupResponse, FoundBlock, FoundReplica, ListFoundResponse,
    PIECE_LEN,
};
use wire::admin::placement::{PAGE_COUNT_MAX, PageRequest};

/// A backup that nobody goes on with keeps old pages of the store in its file.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Flushes, so that all that was answered is in it.
pub(crate) async fn begin(core: &Arc<Core>) -> Result<BeginBackupResponse, Exception> {
    let (its_core, now) = (Arc::clone(core), core.monotonic());
    let id = io::OsRandom::new().next_u64();
    let made_ms = core.now().0;
    let begun = io::task::blocking(move || {
        let store = its_core.machine.store();
        store.flush()?;
        let export = store.export()?;
        let position = export.get(crate::machine::POSITION, &[])?.unwrap_or_default();
        let taken = Taken { id, export, next: 0, last: Vec::new(), touched: now };
        let before = its_core.backup.lock().replace(taken);
        drop(before);
        Ok::<_, kv::KvError>(position)
    });
    let position = begun.await.map_err(failed)?;
    let level = core.raft.level().into();
    let entry = raft::entry_index(&position).unwrap_or_default();
    tracing::info!(entry, "a backup is taken");
    Ok(BeginBackupResponse { id, pool: core.pool.clone(), made_ms, entry, level })
}

pub(crate) async fn piece(core: &Arc<Core>, request: BackupPieceRequest) -> Result<BackupPieceResponse, Exception> {
    let (its_core, now) = (Arc::clone(core), core.monotonic());
    // A piece is read from the disk.
    core.chore(move || {
        let mut taking = its_core.backup.lock();
        let gone = || refusal::illegal("this backup has ended: another one was begun, or nobody went on; begin anew");
        let taken = taking.as_mut().filter(|taken| taken.id == request.id).ok_or_else(gone)?;
        taken.touched = now;
        if request.number == taken.next {
            let piece = taken.export.chunk(PIECE_LEN).map_err(failed)?.unwrap_or_default();
            taken.next += 1;
            taken.last.clone_from(&piece);
        } else if request.number.checked_add(1) != Some(taken.next) {
            return Err(refusal::illegal("pieces of a backup are taken one after the other"));
        }
        assert!(taken.next > request.number, "piece {} was not taken yet", request.number);
        Ok(BackupPieceResponse { piece: taken.last.clone().into() })
    })
    .await
}

/// Lets go of a backup that was taken, or that nobody takes any more.
pub(crate) fn drop_idle(core: &Core) {
    let now = core.monotonic();
    let mut taking = core.backup.lock();
    if taking.as_ref().is_some_and(|taken| now.saturating_sub(taken.touched) > IDLE_MAX) {
        *taking = None;
    }
}

fn failed(error: kv::KvError) -> Exception {
    Exception::io(format!("the backup cannot be read from the store: {error}"))
}

/// Blocks that datanodes have and a restored backup did not know.
pub(crate) fn found(core: &Core, request: PageRequest) -> ListFoundResponse {
    let leader = core.leader();
    let addr = |node| leader.cluster.node(node).map_or_else(|| node.to_string(), |member| member.node.xfer_addr());
    let behind = leader.found.behind(BlockId(request.after));
    let mut blocks: Vec<FoundBlock> = behind
        .take(PAGE_COUNT_MAX + 1)
        .map(|(block, replicas)| FoundBlock {
            block: block.0,
            file: replicas.values().find_map(|replica| replica.file).map(|file| file.0),
            replicas: replicas
                .iter()
                .map(|(node, replica)| FoundReplica {
                    datanode: addr(*node),
                    generation: replica.generation.0,
                    len: replica.len,
                    finalized: replica.finalized,
                })
                .collect(),
        })
        .collect();
    let more = blocks.len() > PAGE_COUNT_MAX;
    blocks.truncate(PAGE_COUNT_MAX);
    assert!(leader.found.block_count() >= blocks.len(), "more blocks are shown than were found");
    let (count, passed_over) = (leader.found.block_count() as u64, leader.found.passed_over());
    ListFoundResponse { blocks, more, count, passed_over }
}
