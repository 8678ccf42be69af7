//! The server's side of a backup: rows of one moment, given out piece by piece, and what a restored one did not know.

use super::whose::{self, Replicas};
use crate::backup_session::Taken;
use crate::block_tokens;
use crate::command;
use crate::core::Core;
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use lead::Leader;
use std::sync::Arc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, NodeId, Random};
use wire::admin::backup::{
    BackupPieceRequest, BackupPieceResponse, BeginBackupResponse, FoundBlock, FoundReplica, ListFoundResponse,
    PIECE_LEN, ReleaseFoundRequest, ReleaseFoundResponse,
};
use wire::admin::placement::{PAGE_COUNT_MAX, PageRequest};

/// A backup that nobody goes on with keeps old pages of the store in its file.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Datanodes that are named, of those that have not reported.
const UNREPORTED_COUNT_MAX: usize = 100;

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

/// A found block without a token, and what it takes to make one.
type Listed = (FoundBlock, Option<(FileId, ContainerId)>);

pub(super) fn addr(leader: &Leader, node: NodeId) -> String {
    leader.cluster.node(node).map_or_else(|| node.to_string(), |member| member.node.xfer_addr())
}

fn list(leader: &Leader, block: BlockId, replicas: &Replicas) -> Listed {
    let most = whose::most_named(replicas);
    // Where datanodes do not agree nothing is read: who wants to is told so, as he asks for it to be recovered.
    let whose = most.filter(|_| whose::sides(replicas).is_none());
    let found = FoundBlock {
        block: block.0,
        file: most.map(|(file, _)| file.0),
        replicas: replicas
            .iter()
            .map(|(node, replica)| FoundReplica {
                datanode: addr(leader, *node),
                generation: replica.generation.0,
                len: replica.len,
                finalized: replica.finalized,
            })
            .collect(),
        token: None,
    };
    (found, whose)
}

/// What signs has the leader to itself: nobody may hold it.
fn sign(core: &Core, (found, whose): Listed) -> FoundBlock {
    let sign = |(file, home)| block_tokens::to_read_found(core, file, home, BlockId(found.block));
    FoundBlock { token: whose.and_then(sign), ..found }
}

/// One found block with these replicas, and a token to read it.
pub(super) fn list_one(core: &Core, block: BlockId, replicas: &Replicas) -> FoundBlock {
    let listed = list(&core.leader(), block, replicas);
    sign(core, listed)
}

/// Blocks that datanodes have and a restored backup did not know. A superuser gets a token to read each: whose file it
/// was of is not known, so nobody else may.
pub(crate) fn found(core: &Core, session: &Session, request: PageRequest) -> ListFoundResponse {
    let leader = core.leader();
    let behind = leader.found.behind(BlockId(request.after)).take(PAGE_COUNT_MAX + 1);
    let mut listed: Vec<Listed> = behind.map(|(block, replicas)| list(&leader, block, replicas)).collect();
    let (count, passed_over) = (leader.found.block_count() as u64, leader.found.passed_over());
    let unreported_count = leader.found_unreported().count() as u64;
    let unreported = leader.found_unreported().take(UNREPORTED_COUNT_MAX).map(|node| addr(&leader, node)).collect();
    drop(leader);
    let more = listed.len() > PAGE_COUNT_MAX;
    listed.truncate(PAGE_COUNT_MAX);
    assert!(count >= listed.len() as u64, "more blocks are shown than were found");
    let may_read = session.caller.superuser;
    let show = |listed: Listed| if may_read { sign(core, listed) } else { listed.0 };
    let (blocks, pool) = (listed.into_iter().map(show).collect(), core.pool.clone());
    ListFoundResponse { blocks, more, count, passed_over, pool, unreported, unreported_count }
}

/// What is in no file by now goes, if it was seen.
pub(crate) async fn release_found(
    core: &Core,
    request: ReleaseFoundRequest,
) -> Result<ReleaseFoundResponse, Exception> {
    if !core.raise_level(command::LEAVES).await.map_err(refusal::raft)? {
        return Err(refusal::illegal("a metadata server runs an older version, which cannot release found blocks"));
    }
    // Last, so that hardly any comes between this and the entry of the log.
    check_release(&core.leader(), &request)?;
    tracing::warn!(
        count = request.count,
        force = request.force,
        "found blocks are released: their replicas are deleted"
    );
    let answer = core.change_blocks(blocks::Command::ReleaseFound { at: core.now() }).await.map_err(refusal::raft)?;
    answer.map_err(|refused| Exception::io(refused.to_string()))?;
    Ok(ReleaseFoundResponse {})
}

fn check_release(leader: &Leader, request: &ReleaseFoundRequest) -> Result<(), Exception> {
    if mutation::is(Mutation::ReleaseUnlisted) {
        return Ok(());
    }
    let (count, named) = (leader.found.block_count(), request.count);
    if named != count as u64 {
        return Err(refusal::illegal(format!("{count} found blocks are listed by now, not {named}: list them anew")));
    }
    let (passed_over, unreported) = (leader.found.passed_over(), leader.found_unreported().count());
    if request.force || passed_over == 0 && unreported == 0 {
        return Ok(());
    }
    Err(refusal::illegal(format!(
        "replicas that the list had no room for: {passed_over}; datanodes without a complete report: {unreported}; \
         what only these have would be deleted unseen"
    )))
}
