//! Background tasks of the leader: preparation, deletion, leases, repair; sizes, sealing and removal of containers.

use crate::command::LEVEL;
use crate::core::Core;
use crate::task_fault::rest_after_fault;
use crate::{
    backup, block_deletion, container_removal, container_sealing, container_sizes, delegation_tokens, key_rolls,
    leaves, listed_nodes, recovery, repair, trash,
};
use io::task::Owned;
use io::time::{sleep, timeout};
use std::sync::Arc;
use std::time::Duration;

/// Also without a call for it, since nodes become silent and ids run out by themselves.
const PREPARE_EACH: Duration = Duration::from_secs(1);
/// Also without a call for it, since nodes are lost by silence.
const DELETE_EACH: Duration = Duration::from_secs(5);
/// At most so often, so that a storm of heartbeats is answered by one look.
const DELETE_PAUSE: Duration = Duration::from_millis(200);
const LEASES_EACH: Duration = Duration::from_secs(1);
/// Several times in the shortest gap that counts.
const CONFIRM_EACH: Duration = Duration::from_millis(500);
const _: () = assert!(3 * CONFIRM_EACH.as_millis() <= lead::QUIET_MAX.as_millis());
/// Members answer every two seconds which level they know. A newer program is started once in months, so this is no
/// delay.
const LEVEL_EACH: Duration = Duration::from_secs(5);
const SEAL_EACH: Duration = Duration::from_secs(10);
/// Before a task that ended is begun again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Starts a task of this leader, which ends only when the handle is dropped: the end of a task would go unnoticed. A
/// task that panicked is started again. If it held the leader's lock, the leader begins anew, and this task ends with
/// it.
pub(crate) fn kept<F: Future<Output = ()> + Send + 'static>(
    core: &Arc<Core>,
    name: &'static str,
    begin: impl Fn(Arc<Core>) -> F + Send + 'static,
) -> Owned<()> {
    let core = Arc::clone(core);
    io::task::spawn_owned(name, async move {
        loop {
            let ended = io::task::spawn_owned(name, begin(Arc::clone(&core))).await;
            let panicked = ended.is_err();
            tracing::error!(task = name, panicked, "background task ended; restarting it. Report it");
            sleep(RESTART_PAUSE).await;
        }
    })
}

/// All tasks; they end when this is dropped.
pub(crate) fn start(core: &Arc<Core>) -> Vec<Owned<()>> {
    let lists = core.host_lists.as_ref().map(|_| kept(core, "host_lists", listed_nodes::run));
    let mut tasks = vec![
        kept(core, "reception", async |core| {
            loop {
                if core.raft.confirm().await.is_ok_and(|term| term == core.term) {
                    core.confirm_reception();
                }
                sleep(CONFIRM_EACH).await;
            }
        }),
        kept(core, "prepare", async |core| {
            loop {
                rest_after_fault(core.prepare_blocks().await).await;
                let _ = timeout(PREPARE_EACH, core.prepare.notified()).await;
            }
        }),
        kept(core, "block_deletion", async |core| {
            loop {
                rest_after_fault(block_deletion::round(&core).await).await;
                sleep(DELETE_PAUSE).await;
                let _ = timeout(DELETE_EACH, core.deletion_wake.notified()).await;
            }
        }),
        kept(core, "leases", async |core| {
            loop {
                rest_after_fault(recovery::look_after_leases(&core).await).await;
                rest_after_fault(leaves::round(&core).await).await;
                sleep(LEASES_EACH).await;
            }
        }),
        kept(core, "repair", repair::run),
        kept(core, "membership", repair::run_members),
        kept(core, "complaints", repair::complaints::run),
        kept(core, "census", repair::census::run),
        kept(core, "hash_trees", repair::hash_trees::run),
        kept(core, "level", async |core| {
            loop {
                sleep(LEVEL_EACH).await;
                backup::drop_idle(&core);
                rest_after_fault(core.raise_level(LEVEL).await.map(drop)).await;
            }
        }),
        kept(core, "keys", key_rolls::run),
        kept(core, "delegation_tokens", delegation_tokens::run),
        kept(core, "trash", trash::run),
        kept(core, "containers", async |core| {
            loop {
                sleep(SEAL_EACH).await;
                rest_after_fault(container_sizes::round(&core).await).await;
                rest_after_fault(container_sealing::round(&core).await).await;
                rest_after_fault(container_removal::round(&core).await).await;
            }
        }),
    ];
    tasks.extend(lists);
    tasks
}
