//! What runs beside the calls: preparing for new blocks, deleting, looking after leases, repairing; measuring, sealing
//! and removing containers.

use crate::command::Command;
use crate::core::Core;
use crate::task_fault::fault;
use crate::{measuring, reaper, recovery, removal, repair, sealing};
use io::stage::{sleep, timeout};
use io::task::Owned;
use std::sync::Arc;
use std::time::Duration;

/// Also without a call for it, since nodes fall silent and ids run out by themselves.
const PREPARE_EACH: Duration = Duration::from_secs(1);
/// Also without a call for it, since nodes are lost by falling silent.
const REAP_EACH: Duration = Duration::from_secs(5);
/// At most so often, so that a storm of heartbeats is answered by one look.
const REAP_PAUSE: Duration = Duration::from_millis(200);
const LEASES_EACH: Duration = Duration::from_secs(1);
/// Several times in the shortest gap that counts.
const HEARING_EACH: Duration = Duration::from_millis(500);
const _: () = assert!(3 * HEARING_EACH.as_millis() <= lead::QUIET_MAX.as_millis());
/// Members answer every two seconds which level they know. A newer program is started once in months, so nobody waits.
const LEVEL_EACH: Duration = Duration::from_secs(5);
const SEAL_EACH: Duration = Duration::from_secs(10);

/// Marks the leader broken when its task ends by itself: what nobody does any more is not seen to be missing.
struct Watch {
    core: Arc<Core>,
    name: &'static str,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // One that is dropped otherwise was ended with the time of its leader.
        if std::thread::panicking() {
            self.core.break_off();
        }
    }
}

/// Starts a task of this leader, which ends when the handle is dropped and not before.
pub(crate) fn kept(core: &Arc<Core>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Owned<()> {
    let watch = Watch { core: Arc::clone(core), name };
    io::task::spawn_owned(name, async move {
        task.await;
        tracing::error!(task = watch.name, "a background task came to its end; report it");
        watch.core.break_off();
    })
}

/// All tasks; they end when this is dropped.
pub(crate) fn start(core: &Arc<Core>) -> Vec<Owned<()>> {
    let (preparer, reaper, keeper, sealer) = (Arc::clone(core), Arc::clone(core), Arc::clone(core), Arc::clone(core));
    let (hearing, riser) = (Arc::clone(core), Arc::clone(core));
    vec![
        kept(core, "hearing", async move {
            loop {
                if hearing.raft.confirm().await.is_ok_and(|term| term == hearing.term) {
                    hearing.confirm_hearing();
                }
                sleep(HEARING_EACH).await;
            }
        }),
        kept(core, "prepare", async move {
            loop {
                if let Err(error) = preparer.prepare_blocks().await {
                    fault(&error).await;
                }
                let _ = timeout(PREPARE_EACH, preparer.prepare.notified()).await;
            }
        }),
        kept(core, "reaper", async move {
            loop {
                if let Err(error) = reaper::round(&reaper).await {
                    fault(&error).await;
                }
                sleep(REAP_PAUSE).await;
                let _ = timeout(REAP_EACH, reaper.reap.notified()).await;
            }
        }),
        kept(core, "leases", async move {
            loop {
                if let Err(error) = recovery::look_after_leases(&keeper).await {
                    fault(&error).await;
                }
                sleep(LEASES_EACH).await;
            }
        }),
        kept(core, "repair", repair::run(Arc::clone(core))),
        kept(core, "members", repair::run_members(Arc::clone(core))),
        kept(core, "reported", repair::reported::run(Arc::clone(core))),
        kept(core, "census", repair::census::run(Arc::clone(core))),
        kept(core, "contents", repair::contents::run(Arc::clone(core))),
        kept(core, "level", async move {
            loop {
                sleep(LEVEL_EACH).await;
                if let Err(error) = raise_level(&riser).await {
                    fault(&error).await;
                }
            }
        }),
        kept(core, "sealer", async move {
            let (mut measure, mut turn) = (measuring::Measure::default(), removal::Turn::default());
            loop {
                sleep(SEAL_EACH).await;
                if let Err(error) = measuring::round(&sealer, &mut measure).await {
                    fault(&error).await;
                }
                if let Err(error) = sealing::round(&sealer).await {
                    fault(&error).await;
                }
                if let Err(error) = removal::round(&sealer, &mut turn).await {
                    fault(&error).await;
                }
            }
        }),
    ]
}

/// Lets newer forms be written once every member knows them.
async fn raise_level(core: &Core) -> Result<(), raft::RaftError> {
    match core.raft.common_level() {
        Some(level) if level > core.raft.level() => {
            tracing::info!(level, "all members know newer forms of what is written; they are used from here on");
            core.raft.propose(Command::Raise { level }).await.map(drop)
        }
        _ => Ok(()),
    }
}
