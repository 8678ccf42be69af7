//! Blocks come back to as many copies as they should have, and the jobs run that administrators begin: this module
//! asks, reads and proposes; `lead` decides.
//!
//! ```text
//!   node silent, set short, drain ──▶ members ──▶ SetMembers (log) ──▶ containers to compare
//!   recovery, append, bad replica ──▶ doubts ──┐                              │
//!   audit of all, slowly ─────────────────────▶├──▶ compare: members are asked, by digest and by list ──▶ lacks
//!   setReplication ──▶ resize: lacks in another container, then MoveBlocks     │                           │ heartbeat's answer
//!   replicas where none belong ──▶ surplus: go once others have the block      └ nothing lacks: Whole (log) ▼ node copies
//!   replicas called bad ──▶ reported: their nodes read them, beside all this
//!   how many blocks have too few copies, for people: census, which decides nothing
//!   sealed containers ──▶ contents: members' hash trees over the checksums, down to where they differ
//! ```
//!
//! Promise: work a round is bounded, whatever happened, and a node that does not answer is waited for once in a while,
//! not at each question; nothing is concluded from silence before this server has led for as long as a node may be
//! silent; no replica goes because of what is remembered here, only because others said that they have it.

mod balance;
pub(crate) mod census;
mod compare;
pub(crate) mod contents;
mod error;
pub(crate) mod jobs;
mod members;
pub(crate) mod node_jobs;
pub(crate) mod reported;
mod resize;
mod rules;
mod surplus;

pub(crate) use compare::has_whole;
pub(crate) use error::RepairError;
pub(crate) use rules::rules;

use crate::core::Core;
use crate::task_fault::TakenWork;
use io::stage::timeout;
use std::sync::Arc;
use std::time::Duration;

/// Between rounds if nobody calls for one.
const ROUND_EACH: Duration = Duration::from_secs(1);
/// Between looks at the members of all pipelines.
const MEMBERS_EACH: Duration = Duration::from_millis(500);
/// Between rounds at least.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// Looks after the blocks until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let _taken = TakenWork(Arc::clone(&core));
    loop {
        let now = core.monotonic();
        core.leader().audit(now);
        if let Err(error) = round(&core).await {
            crate::task_fault::fault(&error).await;
        }
        io::stage::sleep(ROUND_PAUSE).await;
        let _ = timeout(ROUND_EACH, core.repair_wake.notified()).await;
    }
}

/// Looks after the members of pipelines until the task is dropped: by itself, since comparing waits for datanodes that
/// may not answer.
pub(crate) async fn run_members(core: Arc<Core>) {
    let _taken = TakenWork(Arc::clone(&core));
    loop {
        if let Err(error) = members::round(&core).await {
            crate::task_fault::fault(&error).await;
        }
        io::stage::sleep(MEMBERS_EACH).await;
    }
}

async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    compare::round(core).await?;
    // Copies are made in safe mode, too; nothing goes, and no container moves for any other reason.
    let is_frozen = core.safe_mode()?.is_some();
    if !is_frozen {
        resize::round(core).await?;
        surplus::round(core).await?;
    }
    jobs::round(core).await?;
    if !is_frozen {
        balance::begin_moves(core).await?;
    }
    jobs::write_ends(core).await
}
